/* SPDX-License-Identifier: Apache-2.0 */
/* Compares nodes and prints differences and the verdict. */
#include "capo/msg.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/check/check.h"
#include "cli/check/check_folder.h"

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* Append @name to the list of @key in @groups. */
static void add_to_group(json_t *groups, const char *key, json_t *name)
{
        json_t *group = json_object_get(groups, key);

        if (!group)
                json_object_set_new(groups, key, group = json_array());
        json_array_append(group, name);
}

/* {"fact", "usual", "nodes": how many have the usual value, "others": [{"value", "nodes": [name]}]};
 * NULL: all have the same. A missing value counts as "-". A node without any facts was not checked
 * completely and is not compared. */
static json_t *compare_fact(const json_t *nodes, const char *name)
{
        json_t *groups = json_object(), *others = json_array(), *group, *node, *row = NULL;
        const char *value, *usual = NULL;
        size_t most = 0, i;

        json_array_foreach(nodes, i, node)
        {
                const json_t *facts = json_object_get(node, "facts");

                value = text_of(facts, name);
                if (json_object_size(facts))
                        add_to_group(groups, *value ? value : "-", json_object_get(node, "node"));
        }
        json_object_foreach(groups, value, group)
        {
                if (json_array_size(group) > most) {
                        most = json_array_size(group);
                        usual = value;
                }
        }
        json_object_foreach(groups, value, group)
        {
                if (value != usual)
                        json_array_append_new(
                                others, json_pack("{s:s, s:O}", "value", value, "nodes", group));
        }
        if (json_array_size(others))
                row = json_pack("{s:s, s:s, s:i, s:O}", "fact", name, "usual", usual, "nodes",
                                (int)most, "others", others);
        json_decref(others);
        json_decref(groups);
        return row;
}

static json_t *compare_nodes(const json_t *nodes)
{
        json_t *rows = json_array(), *names = json_object(), *node, *row, *unused;
        const char *name;
        size_t i;

        json_array_foreach(nodes, i, node)
                json_object_update_missing(names, json_object_get(node, "facts"));
        json_object_foreach(names, name, unused)
        {
                if ((row = compare_fact(nodes, name)))
                        json_array_append_new(rows, row);
        }
        json_decref(names);
        return rows;
}

static size_t count_level(const json_t *page, const char *level)
{
        json_t *nodes = json_object_get(page, "nodes"), *node, *row;
        size_t i, k, n = 0;

        json_array_foreach(nodes, i, node)
        {
                json_array_foreach(json_object_get(node, "findings"), k, row) n +=
                        !strcmp(text_of(row, "level"), level);
        }
        return n;
}

bool check_failed(const json_t *page, bool strict)
{
        return count_level(page, capo_finding_word(CAPO_FINDING_FAIL)) ||
               json_array_size(json_object_get(page, "missing")) ||
               (strict && (count_level(page, capo_finding_word(CAPO_FINDING_WARN)) ||
                           json_array_size(json_object_get(page, "differences"))));
}

json_t *check_page(json_t *nodes, json_t *missing)
{
        json_t *page = json_pack("{s:i, s:o, s:o, s:o}", "capo_check", 1, "nodes", nodes,
                                 "differences", compare_nodes(nodes), "missing", missing);

        json_object_set_new(page, "verdict",
                            json_string(check_failed(page, false)  ? "not ready"
                                        : check_failed(page, true) ? "ready, with warnings"
                                                                   : "ready"));
        return page;
}

char *check_list(const json_t *names, char text[400])
{
        json_t *name;
        size_t i, n = json_array_size(names);

        *text = 0;
        json_array_foreach(names, i, name)
        {
                if (i < 4 || n == 5)
                        capo_append(text, 400, "%s%s", i ? ", " : "", json_string_value(name));
        }
        return n > 5 ? capo_append(text, 400, " and %zu more", n - 4) : text;
}

/* Print each finding once for all nodes that have it: {level: topic: text: [node, ...]}. */
static void print_findings(struct capo_table *t, const json_t *nodes, enum capo_finding_level level)
{
        json_t *lines = json_object(), *node, *row, *names;
        const bool several = json_array_size(nodes) > 1;
        const char *key;
        char text[2000];
        size_t i, k;

        json_array_foreach(nodes, i, node)
        {
                json_array_foreach(json_object_get(node, "findings"), k, row)
                {
                        /* OK findings on many nodes are only counted */
                        if (strcmp(text_of(row, "level"), capo_finding_word(level)) != 0 ||
                            (level <= CAPO_FINDING_NOTE && several &&
                             strcmp(text_of(row, "topic"), "all-reduce") != 0))
                                continue;
                        snprintf(text, sizeof text, "%s\t%s", text_of(row, "topic"),
                                 text_of(row, "text"));
                        add_to_group(lines, text, json_object_get(node, "node"));
                }
        }
        json_object_foreach(lines, key, names)
        {
                int topic = (int)strcspn(key, "\t");

                capo_table_row(t, "%-4s\t%-10.*s\t%s%s%s", capo_finding_word(level), topic, key,
                               several ? check_list(names, text) : "", several ? ": " : "",
                               key + topic + 1);
        }
        json_decref(lines);
}

static void print_differences(struct capo_table *t, const json_t *page)
{
        json_t *row, *other;
        char list[400];
        size_t i, k;

        json_array_foreach(json_object_get(page, "differences"), i, row)
        {
                char text[1500] = "";

                json_array_foreach(json_object_get(row, "others"), k, other) capo_append(
                        text, sizeof text, "%s%s on %s", k ? "; " : "", text_of(other, "value"),
                        check_list(json_object_get(other, "nodes"), list));
                capo_table_row(t, "%-4s\t%-10s\t%s is %s on %s, but %s", "warn", "differ",
                               text_of(row, "fact"), text_of(row, "usual"),
                               capo_text_plural(
                                       (unsigned)json_integer_value(json_object_get(row, "nodes")),
                                       "node", NULL),
                               text);
        }
}

void check_print(const json_t *page, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll.l~");
        json_t *nodes = json_object_get(page, "nodes"), *index;
        size_t n = json_array_size(nodes), i,
               failures = count_level(page, "FAIL") +
                          json_array_size(json_object_get(page, "missing")),
               differences = json_array_size(json_object_get(page, "differences"));
        FILE *screen = cli_screen_begin(out);

        for (int level = CAPO_FINDING_FAIL; level >= CAPO_FINDING_OK; level--) {
                if (level == CAPO_FINDING_WARN)
                        print_differences(t, page);
                print_findings(t, nodes, (enum capo_finding_level)level);
        }
        json_array_foreach(json_object_get(page, "missing"), i, index)
                capo_table_row(t, "%-4s\t%-10s\tnode %lld did not answer in time", "FAIL", "nodes",
                               json_integer_value(index));
        capo_table_print(t, screen, 0);
        fprintf(screen, "%s: %s, %s, %s%s%s\n", check_failed(page, false) ? "NOT READY" : "READY",
                capo_text_plural(n, "node", NULL), capo_text_plural(failures, "failure", NULL),
                capo_text_plural(count_level(page, "warn"), "warning", NULL), n > 1 ? ", " : "",
                n > 1 ? capo_text_plural(differences, "difference", NULL) : "");
}

/* Add the nodes of the page that @text begins with; one that a file given twice repeats counts once.
 * Return: how many there are. */
static size_t add_nodes(json_t *nodes, const char *text)
{
        json_t *all = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL), *page = check_plain(all),
               *node, *other;
        size_t i, k, n = 0;

        json_array_foreach(json_object_get(page, "nodes"), i, node)
        {
                bool repeated = false;

                if (!json_is_object(json_object_get(node, "facts")) ||
                    !json_is_string(json_object_get(node, "node")) ||
                    !json_is_array(json_object_get(node, "findings")))
                        continue;
                n++;
                json_array_foreach(nodes, k, other) repeated |= json_equal(other, node);
                if (repeated)
                        capo_warn("check: node %s is given twice, and counted once",
                                  text_of(node, "node"));
                else
                        json_array_append(nodes, node);
        }
        json_decref(page);
        json_decref(all);
        return n;
}

int check_read(json_t *nodes, const char *path)
{
        _cleanup_fclose_ FILE *in = strcmp(path, "-") ? fopen(path, "re") : fdopen(dup(0), "r");
        _cleanup_free_ char *line = NULL;
        size_t room = 0, n = 0;

        if (!in)
                return capo_fail(-errno, "check: %s: %s", path, strerror(errno));
        while (getline(&line, &room, in) > 0) {
                const char *page = strstr(line, "{\"capo_check\"");

                n += page ? add_nodes(nodes, page) : 0;
        }
        return n ? 0
                 : capo_fail(-EINVAL, "check: %s: expected lines of capo check --json, found none",
                             path);
}
