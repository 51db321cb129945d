/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "profiles/machine/xml.h"

static struct capo_xml *parse(const char *text)
{
        struct capo_xml *root = NULL;
        char why[256] = "";

        cr_assert_eq(capo_xml_parse("t.xml", text, strlen(text), &root, why, sizeof why), 0, "%s",
                     why);
        return root;
}

Test(xml, elements_attributes_and_lines)
{
        struct capo_xml *root = parse(
                "<?xml version=\"1.0\"?>\n<!-- words -->\n<system a='1' b=\"x &amp; &quot;y&quot;\">"
                "\n  text <cpu n=\"0\">\n<pci/><nic/></cpu>\n\n<cpu n=\"1\"/></system>");
        struct capo_xml *cpu = root->child;

        cr_assert_str_eq(root->name, "system");
        cr_assert_null(root->parent);
        cr_assert_null(root->next);
        cr_assert_eq(root->line, 3);
        cr_assert_eq(root->n_attrs, 2);
        cr_assert_str_eq(capo_xml_get(root, "a"), "1");
        cr_assert_str_eq(capo_xml_get(root, "b"), "x & \"y\"");
        cr_assert_null(capo_xml_get(root, "c"));
        cr_assert_str_eq(cpu->name, "cpu");
        cr_assert_eq(cpu->line, 4);
        cr_assert_eq(cpu->parent, root);
        cr_assert_str_eq(cpu->child->name, "pci");
        cr_assert_str_eq(cpu->child->next->name, "nic");
        cr_assert_null(cpu->child->child);
        cr_assert_null(cpu->child->next->next);
        cr_assert_eq(cpu->next->line, 7);
        cr_assert_str_eq(capo_xml_get(cpu->next, "n"), "1");
        cr_assert_null(cpu->next->next);
        capo_xml_free(root);
        capo_xml_free(NULL);
}

Test(xml, refused)
{
        static char deep[4096];
        const struct {
                const char *text, *said;
        } rows[] = {{"", "t.xml:"},
                    {"words", "t.xml:1:"},
                    {"<a>\n<b></a>", "t.xml:2:"},
                    {"<a/><b/>", "t.xml:1:"},
                    {"<a x=1/>", "t.xml:1:"},
                    {"<a x=\"1\" x=\"2\"/>", "t.xml:1:"},
                    {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "entity"},
                    {deep, "deep"}};

        for (int i = 0; i < 201; i++)
                strcat(deep, "<a>");
        for (int i = 0; i < 201; i++)
                strcat(deep, "</a>");
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_xml *root = NULL;
                char why[256] = "";

                cr_expect_lt(capo_xml_parse("t.xml", rows[i].text, strlen(rows[i].text), &root, why,
                                            sizeof why),
                             0, "row %zu", i);
                cr_expect(strstr(why, rows[i].said), "row %zu: %s", i, why);
                cr_expect_null(root);
        }
}

Test(xml, files)
{
        char path[] = "/tmp/capo-xml-XXXXXX", why[256] = "";
        int fd = mkstemp(path);
        struct capo_xml *root = NULL;

        cr_assert_eq(write(fd, "<a>\n<b/></a>\n", 13), 13);
        close(fd);
        cr_assert_eq(capo_xml_read(path, &root, why, sizeof why), 0, "%s", why);
        cr_assert_str_eq(root->child->name, "b");
        cr_assert_eq(root->child->line, 2);
        capo_xml_free(root);
        unlink(path);
        cr_assert_eq(capo_xml_read(path, &root, why, sizeof why), -ENOENT);
        cr_assert(strstr(why, path), "%s", why);
}
