/* SPDX-License-Identifier: Apache-2.0 */
/* Compares nodes and prints differences and the verdict. */
#include "capo/msg.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/check/check.h"
#include "cli/check/check_folder.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* The names of all nodes' facts. */
static json_t *collect_names(const json_t *nodes)
{
        json_t *names = json_object(), *node;
        size_t i;

        json_array_foreach(nodes, i, node)
        {
                const char *name;
                json_t *value;

                json_object_foreach(json_object_get(node, "facts"), name, value)
                        json_object_set_new(names, name, json_true());
        }
        return names;
}

/* {value: [node, ...]} for one fact; a missing value counts as "-". A node without any facts was
 * not checked completely and is not compared. */
static json_t *group_nodes(const json_t *nodes, const char *name)
{
        json_t *groups = json_object(), *node;
        size_t i;

        json_array_foreach(nodes, i, node)
        {
                const char *value = text_of(json_object_get(node, "facts"), name);
                json_t *group;

                if (!json_object_size(json_object_get(node, "facts")))
                        continue;
                value = *value ? value : "-";
                group = json_object_get(groups, value);
                if (!group) {
                        group = json_array();
                        json_object_set_new(groups, value, group);
                }
                json_array_append(group, json_object_get(node, "node"));
        }
        return groups;
}

/* {"fact", "usual", "nodes": how many have the usual value, "others": [{"value", "nodes": [name]}]}
 */
static json_t *compare_fact(const json_t *nodes, const char *name)
{
        json_t *groups = group_nodes(nodes, name), *group, *row = NULL, *others;
        const char *value, *usual = NULL;
        size_t most = 0;

        json_object_foreach(groups, value, group)
        {
                if (json_array_size(group) > most) {
                        most = json_array_size(group);
                        usual = value;
                }
        }
        if (json_object_size(groups) > 1 && usual) {
                others = json_array();
                json_object_foreach(groups, value, group)
                {
                        if (value != usual)
                                json_array_append_new(others, json_pack("{s:s, s:O}", "value",
                                                                        value, "nodes", group));
                }
                row = json_pack("{s:s, s:s, s:i, s:o}", "fact", name, "usual", usual, "nodes",
                                (int)most, "others", others);
        }
        json_decref(groups);
        return row;
}

static json_t *compare_nodes(const json_t *nodes)
{
        json_t *rows = json_array(), *names = collect_names(nodes), *unused;
        const char *name;

        json_object_foreach(names, name, unused)
        {
                json_t *row = compare_fact(nodes, name);

                if (row)
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

        if (page)
                json_object_set_new(page, "verdict",
                                    json_string(check_failed(page, false)  ? "not ready"
                                                : check_failed(page, true) ? "ready, with warnings"
                                                                           : "ready"));
        return page;
}

/* "node1, node2 and 5 more" */
static char *list_nodes(const json_t *names, char *text, size_t room)
{
        json_t *name;
        size_t i, n = json_array_size(names);

        *text = 0;
        json_array_foreach(names, i, name)
        {
                if (i == 4 && n > 5)
                        break;
                capo_append(text, room, "%s%s", i ? ", " : "", json_string_value(name));
        }
        if (n > 5)
                capo_append(text, room, " and %zu more", n - 4);
        return text;
}

/* Print each finding once for all nodes that have it: {level: topic: text: [node, ...]}. */
static void print_findings(struct capo_table *t, const json_t *nodes, enum capo_finding_level level)
{
        json_t *lines = json_object(), *node, *row, *names;
        const char *key;
        char list[300];
        size_t i, k;

        json_array_foreach(nodes, i, node)
        {
                json_array_foreach(json_object_get(node, "findings"), k, row)
                {
                        char line[2000];

                        /* OK findings on many nodes are only counted */
                        if (strcmp(text_of(row, "level"), capo_finding_word(level)) != 0 ||
                            (level <= CAPO_FINDING_NOTE && json_array_size(nodes) > 1 &&
                             strcmp(text_of(row, "topic"), "all-reduce") != 0))
                                continue;
                        snprintf(line, sizeof line, "%s\t%s", text_of(row, "topic"),
                                 text_of(row, "text"));
                        names = json_object_get(lines, line);
                        if (!names) {
                                names = json_array();
                                json_object_set_new(lines, line, names);
                        }
                        json_array_append(names, json_object_get(node, "node"));
                }
        }
        json_object_foreach(lines, key, names)
        {
                const char *text = strchr(key, '\t');

                if (json_array_size(nodes) > 1)
                        capo_table_row(t, "%-4s\t%-10.*s\t%s: %s", capo_finding_word(level),
                                       (int)(text - key), key, list_nodes(names, list, sizeof list),
                                       text + 1);
                else
                        capo_table_row(t, "%-4s\t%-10.*s\t%s", capo_finding_word(level),
                                       (int)(text - key), key, text + 1);
        }
        json_decref(lines);
}

static void print_differences(struct capo_table *t, const json_t *page)
{
        json_t *row, *other;
        char list[300];
        size_t i, k;

        json_array_foreach(json_object_get(page, "differences"), i, row)
        {
                char text[1500] = "";

                json_array_foreach(json_object_get(row, "others"), k, other) capo_append(
                        text, sizeof text, "%s%s on %s", k ? "; " : "", text_of(other, "value"),
                        list_nodes(json_object_get(other, "nodes"), list, sizeof list));
                capo_table_row(t, "%-4s\t%-10s\t%s is %s on %s, but %s", "warn", "differ",
                               text_of(row, "fact"), text_of(row, "usual"),
                               capo_text_plural(
                                       (unsigned)json_integer_value(json_object_get(row, "nodes")),
                                       "node", NULL),
                               text);
        }
}

static void say_counts(const json_t *page, size_t n, FILE *out)
{
        const struct {
                const char *what;
                size_t n;
        } counts[] = {
                {"failure",
                 count_level(page, "FAIL") + json_array_size(json_object_get(page, "missing"))},
                {"warning", count_level(page, "warn")},
                {"difference", json_array_size(json_object_get(page, "differences"))},
        };

        fprintf(out, "%s: %s", check_failed(page, false) ? "NOT READY" : "READY",
                capo_text_plural((unsigned)n, "node", NULL));
        for (size_t i = 0; i < N_ELEMENTS(counts) - (n < 2); i++)
                fprintf(out, ", %s", capo_text_plural((unsigned)counts[i].n, counts[i].what, NULL));
        fprintf(out, "\n");
}

void check_print(const json_t *page, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll.l~");
        json_t *nodes = json_object_get(page, "nodes"), *index;
        size_t n = json_array_size(nodes), i;
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
        say_counts(page, n, screen);
}

/* Is it the same result again, from a file given twice? Two checks of one node count as two. */
static bool is_repeated(const json_t *nodes, const json_t *node)
{
        const json_t *other;
        size_t i;

        json_array_foreach(nodes, i, other)
        {
                if (json_equal(other, node))
                        return true;
        }
        return false;
}

/* Add the nodes of the page that @text begins with; counts them in @n. Return: is the page
 * complete? */
static bool add_nodes(json_t *nodes, const char *text, size_t *n)
{
        json_t *all = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL), *page = check_plain(all),
               *node;
        bool whole = page;
        size_t i;

        json_decref(all);
        json_array_foreach(json_object_get(page, "nodes"), i, node)
        {
                if (!json_is_object(json_object_get(node, "facts")) ||
                    !json_is_string(json_object_get(node, "node")) ||
                    !json_is_array(json_object_get(node, "findings")))
                        continue;
                ++*n;
                if (is_repeated(nodes, node))
                        capo_warn("check: node %s is given twice, and counted once",
                                  text_of(node, "node"));
                else
                        json_array_append(nodes, node);
        }
        json_decref(page);
        return whole;
}

/* @line continues a page with the same label: srun -l breaks lines at 1 KiB. */
static void go_on(json_t *nodes, json_t *begun, const char *line, size_t *n)
{
        const char *label;
        json_t *text;

        json_object_foreach(begun, label, text)
        {
                char *whole;

                if (!*label || strncmp(line, label, strlen(label)) != 0)
                        continue;
                whole = xprintf("%s%s", json_string_value(text), line + strlen(label));
                if (add_nodes(nodes, whole, n))
                        json_object_del(begun, label);
                else
                        json_object_set_new(begun, label, json_string(whole));
                free(whole);
                return;
        }
}

int check_read(json_t *nodes, const char *path)
{
        _cleanup_fclose_ FILE *in = strcmp(path, "-") ? fopen(path, "re") : fdopen(dup(0), "r");
        _cleanup_free_ char *line = NULL;
        size_t room = 0, n = 0;
        json_t *begun;

        if (!in)
                return capo_fail(-errno, "check: %s: %s", path, strerror(errno));
        begun = json_object();
        while (getline(&line, &room, in) > 0) {
                char *page = strstr(line, "{\"capo_check\"");

                line[strcspn(line, "\n")] = 0;
                if (!page) {
                        go_on(nodes, begun, line, &n);
                } else if (!add_nodes(nodes, page, &n)) {
                        json_t *text = json_string(page);

                        *page = 0;
                        json_object_set_new(begun, line, text);
                }
        }
        json_decref(begun);
        if (!n)
                return capo_fail(-EINVAL,
                                 "check: %s: expected lines of capo check --json, found none",
                                 path);
        return 0;
}
