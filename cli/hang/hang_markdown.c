/* SPDX-License-Identifier: Apache-2.0 */
/* The page as Markdown, for issues. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli_page.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* The page's lines become a list: indented lines belong to the item above. */
int hang_markdown(const struct hang_page *p, FILE *out)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0, n = 0;
        FILE *page = xmemstream(&text, &size);
        int r = hang_text(p, page);

        xmemclose(page);
        for (char *line, *rest = text; r == 0 && (line = strsep(&rest, "\n")) && rest; n++) {
                size_t indent = strspn(line, " ");

                if (n > 1)
                        fprintf(out, "%*s* ", indent > 2 ? (int)indent - 2 : 0, "");
                else
                        fputs(n ? "\n**" : "## ", out);
                cli_markdown_text(out, line + indent);
                fputs(n == 1 ? "**\n\n" : "\n", out);
        }
        return r < 0 ? r : fflush(out) || ferror(out) ? -EIO : 0;
}
