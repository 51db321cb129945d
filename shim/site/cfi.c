/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: Linux Standard Base 5.0, Core, 10.6 (.eh_frame and .eh_frame_hdr); DWARF 5, 6.4 and
 * 7.24; DWARF for the Arm 64-bit Architecture (AADWARF64). What linkers write is read (a sorted
 * table of 4-byte offsets from the header, 4-byte offsets in the entries), no more. */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "shim/find/maps.h"
#include "shim/site/cfi.h"

enum { ENTRY = 1024, STATES = 4, PAGE = 4096 };

enum rule { SAME, UNKNOWN, UNDEFINED, SAVED, SAVED_BY };

struct row {
        struct {
                uint8_t rule, by; /* enum rule; of SAVED_BY: register */
                int64_t at;       /* of SAVED: from the CFA, of SAVED_BY from that register */
        } reg[CAPO_CFI_REGISTERS];
        uint64_t cfa_reg;
        int64_t cfa_at;
        bool cfa_known, cfa_there; /* there: it stands at that place in memory */
};

/* Bytes of an entry that were read. */
struct bytes {
        const uint8_t *p, *end;
        bool bad;
};

struct entry {
        uint8_t raw[ENTRY]; /* a copy, of one that is not read in place */
        struct bytes program;
};

/* Bytes of the object that @c is in. */
static bool get_bytes(const struct capo_cfi *c, uintptr_t from, void *to, size_t size)
{
        if (!c->end)
                return capo_read_self(from, to, size);
        if (from < c->begin || from > c->end || c->end - from < size)
                return false;
        memcpy(to, (const void *)from, size); /* NOLINT(performance-no-int-to-ptr) */
        return true;
}

struct cie {
        struct entry e;
        uint64_t code_align,
                data_align; /* the latter stands for one below 0, mostly (scale_offset()) */
        uint8_t encoding;   /* of addresses */
        bool signal;
};

static uint64_t read_fixed(struct bytes *b, unsigned size)
{
        uint64_t v = 0;

        if ((size_t)(b->end - b->p) < size) {
                b->bad = true;
                return 0;
        }
        memcpy(&v, b->p, size);
        b->p += size;
        return v;
}

static uint64_t read_uleb(struct bytes *b)
{
        uint64_t v = 0;

        for (unsigned shift = 0; shift < 64; shift += 7) {
                uint8_t byte = (uint8_t)read_fixed(b, 1);

                v |= (uint64_t)(byte & 0x7f) << shift;
                if (!(byte & 0x80))
                        return v;
        }
        b->bad = true;
        return 0;
}

static int64_t read_sleb(struct bytes *b)
{
        const uint8_t *first = b->p;
        uint64_t v = read_uleb(b);
        size_t bits = (size_t)(b->p - first) * 7;

        if (!b->bad && bits < 64 && v >> (bits - 1) & 1)
                v |= ~UINT64_C(0) << bits;
        return (int64_t)v;
}

/* Unsigned, since the product of untrusted numbers may overflow. */
static int64_t scale_offset(uint64_t n, uint64_t align) { return (int64_t)(n * align); }

static void skip_block(struct bytes *b)
{
        uint64_t n = read_uleb(b);

        if (b->bad || n > (uint64_t)(b->end - b->p))
                b->bad = true;
        else
                b->p += n;
}

/* The entry at @at without its length. In place it may be a long one: PyTorch 2.15's
 * libtorch_cuda.so has 145 of more than ENTRY, up to 20 KB. */
static bool read_entry(const struct capo_cfi *c, uintptr_t at, struct entry *e)
{
        const uint8_t *p = e->raw;
        uint32_t length;

        if (!get_bytes(c, at, &length, sizeof length) || length < 8)
                return false;
        if (!c->end) {
                if (length > ENTRY || !get_bytes(c, at + 4, e->raw, length))
                        return false;
        } else if (length > c->end - at - 4) {
                return false;
        } else {
                p = (const uint8_t *)at + 4; /* NOLINT(performance-no-int-to-ptr) */
        }
        e->program = (struct bytes){p, p + length, false};
        return true;
}

static unsigned size_of(uint8_t encoding)
{
        switch (encoding & 0x0f) {
        case 0x00: /* absptr */
        case 0x04: /* udata8 */
        case 0x0c: return 8;
        case 0x03: /* udata4 */
        case 0x0b: return 4;
        default: return 0;
        }
}

static bool read_cie(const struct capo_cfi *own, uintptr_t at, struct cie *c)
{
        struct bytes *b = &c->e.program, data;
        const char *letters;
        uint64_t version, size;

        c->encoding = 0;
        c->signal = false;
        if (!read_entry(own, at, &c->e) || read_fixed(b, 4) != 0)
                return false;
        version = read_fixed(b, 1);
        letters = (const char *)b->p;
        if ((version != 1 && version != 3) || !memchr(letters, 0, (size_t)(b->end - b->p)) ||
            *letters != 'z')
                return false;
        b->p += strlen(letters) + 1;
        c->code_align = read_uleb(b);
        c->data_align = (uint64_t)read_sleb(b);
        if ((version == 1 ? read_fixed(b, 1) : read_uleb(b)) != CAPO_CFI_RA)
                return false;
        size = read_uleb(b);
        if (b->bad || size > (uint64_t)(b->end - b->p))
                return false;
        data = (struct bytes){b->p, b->p + size, false};
        b->p += size;
        for (letters++; *letters; letters++) {
                if (*letters == 'R')
                        c->encoding = (uint8_t)read_fixed(&data, 1);
                else if (*letters == 'L')
                        read_fixed(&data, 1);
                else if (*letters == 'P' && (size = size_of((uint8_t)read_fixed(&data, 1))))
                        read_fixed(&data, (unsigned)size);
                else if (*letters == 'S')
                        c->signal = true;
                else if (*letters !=
                         'B') /* AArch64: return addresses are signed with another key */
                        return false;
        }
        return !data.bad && size_of(c->encoding);
}

/* The entry of the function that @pc lies in. */
static bool find_entry(const struct capo_cfi *own, uintptr_t hdr, uint64_t pc, uint64_t *begin,
                       struct cie *c, struct entry *fde)
{
        struct {
                uint8_t version, frame, count, table;
                int32_t frame_at;
                uint32_t n;
        } head;
        struct {
                int32_t begin, entry;
        } row = {0}, middle;
        uint64_t range, cie_at;
        uint32_t low = 0, high;

        if (!get_bytes(own, hdr, &head, sizeof head) || head.version != 1 || head.frame != 0x1b ||
            head.count != 0x03 || head.table != 0x3b)
                return false;
        for (high = head.n; low < high;) { /* the last one that does not begin behind it */
                uint32_t i = low + (high - low) / 2;

                if (!get_bytes(own, hdr + sizeof head + i * sizeof middle, &middle, sizeof middle))
                        return false;
                if (hdr + (uint64_t)(int64_t)middle.begin <= pc) {
                        row = middle;
                        low = i + 1;
                } else {
                        high = i;
                }
        }
        if (!low)
                return false;
        *begin = hdr + (uint64_t)(int64_t)row.begin;
        if (!read_entry(own, hdr + (uint64_t)(int64_t)row.entry, fde))
                return false;
        cie_at = read_fixed(&fde->program, 4);
        if (!cie_at || !read_cie(own, hdr + (uint64_t)(int64_t)row.entry + 4 - cie_at, c))
                return false;
        read_fixed(&fde->program,
                   size_of(c->encoding)); /* where it begins: the table says so, too */
        range = read_fixed(&fde->program, size_of(c->encoding));
        skip_block(&fde->program); /* of the language */
        return !fde->program.bad && pc - *begin < range;
}

/* ---- the program of an entry ---- */

struct machine {
        struct row now, first, kept[STATES];
        unsigned n_kept;
        uint64_t at, pc;
        const struct cie *cie;
        bool bad;
};

static void set_rule(struct machine *m, uint64_t reg, enum rule what, int64_t at)
{
        if (reg >= CAPO_CFI_REGISTERS) /* a vector register or so: of no use here */
                return;
        m->now.reg[reg].rule = (uint8_t)what;
        m->now.reg[reg].at = at;
}

/* A block "register plus number" or "what stands there", as gcc writes for aligned frames. */
static bool read_simple_block(struct bytes *b, uint8_t *reg, int64_t *at, bool *there)
{
        uint64_t n = read_uleb(b);
        struct bytes block;
        uint8_t op;

        if (b->bad || n > (uint64_t)(b->end - b->p)) {
                b->bad = true;
                return false;
        }
        block = (struct bytes){b->p, b->p + n, false};
        b->p += n;
        op = (uint8_t)read_fixed(&block, 1);
        *reg = (uint8_t)(op - 0x70); /* DW_OP_breg0 */
        *at = read_sleb(&block);
        *there = block.p < block.end;
        if (*there && read_fixed(&block, 1) != 0x06) /* DW_OP_deref */
                return false;
        return !block.bad && block.p == block.end && *reg < CAPO_CFI_REGISTERS &&
               *reg != CAPO_CFI_PC;
}

static void set_block_rule(struct machine *m, uint64_t reg, struct bytes *b)
{
        uint8_t from = 0;
        int64_t at = 0;
        bool there, known = read_simple_block(b, &from, &at, &there) && !there;

        set_rule(m, reg, known ? SAVED_BY : UNKNOWN, at);
        if (reg < CAPO_CFI_REGISTERS)
                m->now.reg[reg].by = from;
}

static void cfa_by(struct machine *m, struct bytes *b)
{
        uint8_t from = 0;

        m->now.cfa_known = read_simple_block(b, &from, &m->now.cfa_at, &m->now.cfa_there);
        m->now.cfa_reg = from;
}

static void restore_register(struct machine *m, uint64_t reg)
{
        if (reg < CAPO_CFI_REGISTERS)
                m->now.reg[reg] = m->first.reg[reg];
}

/* DWARF 5, 7.24, table 7.29, but those of the upper two bits. */
static void run_extended_op(struct machine *m, uint8_t op, struct bytes *b)
{
        uint64_t data = m->cie->data_align;
        uint64_t reg;

        switch (op) {
        case 0x00: break;                                                 /* nop */
        case 0x02: m->at += read_fixed(b, 1) * m->cie->code_align; break; /* advance_loc1 */
        case 0x03: m->at += read_fixed(b, 2) * m->cie->code_align; break; /* advance_loc2 */
        case 0x04: m->at += read_fixed(b, 4) * m->cie->code_align; break; /* advance_loc4 */
        case 0x05:
                reg = read_uleb(b), set_rule(m, reg, SAVED, scale_offset(read_uleb(b), data));
                break;                                       /* offset_extended */
        case 0x06: restore_register(m, read_uleb(b)); break; /* restore_extended */
        case 0x07: set_rule(m, read_uleb(b), UNDEFINED, 0); break;
        case 0x08: set_rule(m, read_uleb(b), SAME, 0); break;
        case 0x09:
                reg = read_uleb(b), read_uleb(b), set_rule(m, reg, UNKNOWN, 0);
                break; /* in another register */
        case 0x0a:     /* remember_state */
                if (m->n_kept < STATES)
                        m->kept[m->n_kept++] = m->now;
                else
                        m->bad = true;
                break;
        case 0x0b: /* restore_state */
                if (m->n_kept)
                        m->now = m->kept[--m->n_kept];
                else
                        m->bad = true;
                break;
        case 0x0c: /* def_cfa */
        case 0x12: /* def_cfa_sf */
                m->now.cfa_reg = read_uleb(b);
                m->now.cfa_at = op == 0x0c ? (int64_t)read_uleb(b)
                                           : scale_offset((uint64_t)read_sleb(b), data);
                m->now.cfa_known = true;
                m->now.cfa_there = false;
                break;
        case 0x0d: m->now.cfa_reg = read_uleb(b); break;         /* def_cfa_register */
        case 0x0e: m->now.cfa_at = (int64_t)read_uleb(b); break; /* def_cfa_offset */
        case 0x13:
                m->now.cfa_at = scale_offset((uint64_t)read_sleb(b), data);
                break;                                                   /* def_cfa_offset_sf */
        case 0x0f: cfa_by(m, b); break;                                  /* def_cfa_expression */
        case 0x10: reg = read_uleb(b), set_block_rule(m, reg, b); break; /* expression */
        case 0x16:
                reg = read_uleb(b), skip_block(b), set_rule(m, reg, UNKNOWN, 0);
                break; /* val_expression */
        case 0x11:
                reg = read_uleb(b),
                set_rule(m, reg, SAVED, scale_offset((uint64_t)read_sleb(b), data));
                break; /* offset_extended_sf */
        case 0x14:     /* val_offset */
        case 0x15:
                reg = read_uleb(b), read_uleb(b), set_rule(m, reg, UNKNOWN, 0);
                break;    /* val_offset_sf */
        case 0x2d: break; /* AARCH64_negate_ra_state: plain_address() undoes it without asking */
        case 0x2e: read_uleb(b); break; /* GNU_args_size */
        default: m->bad = true;
        }
}

/* To where the program counter is. */
static bool run_instructions(struct machine *m, struct bytes b)
{
        while (b.p < b.end && !b.bad && !m->bad) {
                uint8_t op = (uint8_t)read_fixed(&b, 1), low = op & 0x3f;

                switch (op >> 6) {
                case 1: m->at += low * m->cie->code_align; break;
                case 2:
                        set_rule(m, low, SAVED, scale_offset(read_uleb(&b), m->cie->data_align));
                        break;
                case 3: restore_register(m, low); break;
                default: run_extended_op(m, op, &b);
                }
                if (m->at > m->pc)
                        return !b.bad && !m->bad;
        }
        return !b.bad && !m->bad;
}

/* Can it be read? Of a futex that is looked at for nobody (0 to wake, 0 to move) the kernel reads
 * the word and says EFAULT where it cannot; no container forbids that one, as some do
 * process_vm_readv(). */
static bool is_readable_word(uint64_t at)
{
        return syscall(SYS_futex, at & ~UINT64_C(3), FUTEX_CMP_REQUEUE_PRIVATE, 0, 0L,
                       at & ~UINT64_C(3), 0) >= 0 ||
               errno != EFAULT;
}

/* A word of the stack. */
static CAPO_UNSANITIZED bool load_word(struct capo_cfi *c, uint64_t at, uint64_t *v)
{
        if (!c->high)
                return capo_read_self(at, v, sizeof *v);
        if (at % sizeof *v) /* none is */
                return false;
        if (at < c->low || at >= c->high) { /* of a page that is not known */
                uint64_t page = at & -(uint64_t)PAGE;

                if (!is_readable_word(at))
                        return false;
                if (page != c->high)
                        c->low = page;
                c->high = page + PAGE;
        }
        *v = *(const volatile uint64_t *)at; /* NOLINT(performance-no-int-to-ptr) */
        return true;
}

/* A return address as the program counter has it: AArch64 may sign it in the bits above. */
static uint64_t plain_address(uint64_t address)
{
#ifdef __aarch64__
        register uint64_t x30 __asm__("x30") = address;

        __asm__("hint #7" : "+r"(x30)); /* xpaclri; nothing on a processor that does not sign */
        address = x30;
#endif
        return address;
}

static bool is_known(const struct capo_cfi *c, uint64_t reg)
{
        return reg < CAPO_CFI_REGISTERS && c->known >> reg & 1;
}

/* The registers of who called, by the row that holds where @c is. */
static int restore_registers(struct capo_cfi *c, const struct row *row, uint64_t cfa,
                             struct capo_cfi *up)
{
        for (unsigned i = 0; i < CAPO_CFI_REGISTERS; i++) {
                uint8_t rule = row->reg[i].rule, by = row->reg[i].by;
                uint64_t from = rule == SAVED_BY ? c->v[by] : cfa;
                bool same = rule == SAME && is_known(c, i) && CAPO_CFI_KEPT >> i & 1,
                     saved = rule == SAVED || (rule == SAVED_BY && is_known(c, by));

                if (saved && !load_word(c, from + (uint64_t)row->reg[i].at, &up->v[i]))
                        return -ENODATA;
                if (same)
                        up->v[i] = c->v[i];
                if (same || saved)
                        up->known |= UINT64_C(1) << i;
        }
        up->v[CAPO_CFI_SP] = cfa;
        up->known |= UINT64_C(1) << CAPO_CFI_SP;
        up->v[CAPO_CFI_PC] = plain_address(up->v[CAPO_CFI_RA]);
        return 0;
}

int capo_cfi_step(struct capo_cfi *c, uintptr_t eh_frame_hdr, bool after_call)
{
        uint64_t pc = c->v[CAPO_CFI_PC] - after_call, begin, cfa;
        struct capo_cfi up = {0};
        struct machine m; /* what is big is not set to 0 first: that would be half of the time */
        struct entry fde;
        struct cie cie;

        if (!find_entry(c, eh_frame_hdr, pc, &begin, &cie, &fde) || cie.signal)
                return -ENODATA;
        m.now = (struct row){0};
        m.n_kept = 0;
        m.at = begin;
        m.pc = pc;
        m.cie = &cie;
        m.bad = false;
        if (!run_instructions(&m, cie.e.program))
                return -ENODATA;
        m.first = m.now;
        if (!run_instructions(&m, fde.program) || !m.now.cfa_known ||
            m.now.cfa_reg == CAPO_CFI_PC || !is_known(c, m.now.cfa_reg))
                return -ENODATA;
        if (m.now.reg[CAPO_CFI_RA].rule == UNDEFINED)
                return 0;
        if (m.now.reg[CAPO_CFI_RA].rule != SAVED) /* a link register is known of nobody */
                return -ENODATA;
        cfa = c->v[m.now.cfa_reg] + (uint64_t)m.now.cfa_at;
        if (m.now.cfa_there && !load_word(c, cfa, &cfa))
                return -ENODATA;
        if (cfa <= c->v[CAPO_CFI_SP]) /* a stack grows down: else this would never end */
                return -ENODATA;
        if (restore_registers(c, &m.now, cfa, &up))
                return -ENODATA;
        up.begin = c->begin, up.end = c->end, up.low = c->low, up.high = c->high;
        *c = up;
        return up.v[CAPO_CFI_PC] ? 1 : 0;
}
