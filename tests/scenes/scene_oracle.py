# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a C scene have called when nothing moves any more, by the script alone.

Written from scene_player.c and NCCL's documentation, not from capo: streams are queues, a
collective ends when all members are in it. A root that need not wait is played both ways; what
differs between the two is not known. None: the script has threads, graphs or endless loops."""

SMALL = 65536  # bytes that a send may leave behind
HOST, SYNC, CREATION, GONE, OVER = "host", "sync", "creation", "gone", "over"
STEPS = 100000
KNOWN = set("""pause spin block raise handle lastly exit leave sync split start end abort destroy coll
send recv ring sleep delay mark early noinit loop done spawn deaf bad""".split())


class TooHard(Exception):
    pass


class Comm:
    def __init__(self, name, members):
        self.name, self.members = name, members
        self.calls = {}  # (rank, number) -> op
        self.halves = {}  # (sender, receiver, word) -> ops


class Rank:
    def __init__(self, number):
        self.number, self.state, self.on = number, None, None
        self.comms, self.queues, self.open = [], {}, None
        self.issued, self.splits, self.handled, self.deaf_exit = {}, {}, set(), False


def is_for(ranks, rank):
    if ranks == "*":
        return True
    found = rank in {int(r) for r in ranks.lstrip("!").split(",")}
    return found != ranks.startswith("!")


def unroll(lines, count):
    """The steps of a rank, loops laid out."""
    stack, at = [], 0
    partner = {}
    for i, (word, *_) in enumerate(lines):
        if word in ("loop", "forever", "thread"):
            stack.append(i)
        elif word == "done":
            partner[stack.pop()] = i

    def walk(begin, end):
        i = begin
        while i < end:
            word, *rest = lines[i]
            if word in ("thread", "forever"):
                raise TooHard(word)
            if word == "loop":
                for _ in range(int(rest[0])):
                    yield from walk(i + 1, partner[i])
                i = partner[i]
            else:
                count[0] += 1
                if count[0] > STEPS:
                    raise TooHard("long")
                yield lines[i]
            i += 1
    return walk(at, len(lines))


class Play:
    def __init__(self, script, n, scene_job, lenient):
        self.lenient, self.n = lenient, n
        lines = [line.split() for line in script]
        words = {line[1] for line in lines}
        if words - KNOWN or "gpus" in scene_job:
            raise TooHard()
        self.world = Comm("world", list(range(n)))
        self.splits, self.made = {}, {}
        self.ranks = [Rank(r) for r in range(n)]
        count = [0]
        self.steps = [unroll([line[1:] for line in lines if is_for(line[0], r)], count)
                      for r in range(n)]
        absent = [r for r in range(n)
                  if any(line[1] == "noinit" and is_for(line[0], r) for line in lines)]
        for r in self.ranks:
            r.comms = [self.world]
            if absent:
                r.state = HOST if r.number in absent else CREATION
        while any([self.advance(r) for r in self.ranks]) or self.settle():
            pass

    def advance(self, r):
        moved = False
        while r.state is None or self.is_free(r):
            r.state = None
            step = next(self.steps[r.number], None)
            moved = True
            if step is None:
                r.state = OVER
                break
            self.play(r, step[0], step[1:])
        return moved

    def is_free(self, r):
        if r.state == SYNC:
            return not any(not op["done"] for group in r.queues.get(r.on, []) for op in group)
        if r.state == CREATION and r.on:
            parent, nth = r.on
            return self.join(parent, nth)
        return False

    def join(self, parent, nth):
        came = self.splits[parent, nth]
        if set(came) != set(parent.members):
            return False
        if nth not in self.made.setdefault(parent, set()):
            self.made[parent].add(nth)
            for colour in {c[0] for c in came.values()}:
                who = sorted(r for r, c in came.items() if c[0] == colour)
                if came[who[0]][1]:
                    who.reverse()
                new = Comm("part%d" % colour, who) if colour >= 0 else None
                for r in who:
                    self.ranks[r].comms[came[r][2]] = new
        return True

    def play(self, r, word, args):
        if word in ("pause", "spin", "block") or (word == "raise" and (
                args[0] == "19" or args[0] in r.handled)):
            if word == "block":
                self.enqueue(r, args[0], {"what": "block", "done": False})
            else:
                r.state = HOST
        elif word == "raise" or word in ("exit", "leave"):
            r.state = HOST if word == "exit" and r.deaf_exit else GONE
        elif word == "handle":
            r.handled.add(args[0])
        elif word == "lastly":
            r.deaf_exit = True
        elif word == "sync":
            r.state, r.on = SYNC, args[0]
        elif word == "split":
            parent, colour = r.comms[int(args[0])], int(args[1])
            r.comms.append(None)
            if not parent:
                return
            nth = r.splits[parent] = r.splits.get(parent, 0) + 1
            came = self.splits.setdefault((parent, nth), {})
            # the place of the new one is that of the end of the list now
            came[r.number] = (colour, len(args) > 2, len(r.comms) - 1)
            r.state, r.on = CREATION, (parent, nth)
        elif word == "start":
            r.open = []
        elif word == "end":
            group, r.open = r.open or [], None
            for stream in {op["stream"] for op in group}:
                r.queues.setdefault(stream, []).append([o for o in group if o["stream"] == stream])
        elif word in ("abort", "destroy"):
            r.comms[int(args[0])] = None
        elif word == "coll":
            self.collective(r, args)
        elif word in ("send", "recv"):
            self.half(r, word, int(args[0]), int(args[1]), int(args[2]), (args + ["0"] * 4)[3])
        elif word == "ring":
            comm = r.comms[int(args[0])]
            me, size = comm.members.index(r.number), len(comm.members)
            r.open = []
            self.half(r, "send", int(args[0]), (me + 1) % size, int(args[1]), "0")
            self.half(r, "recv", int(args[0]), (me + size - 1) % size, int(args[1]), "0")
            self.play(r, "end", [])

    def enqueue(self, r, stream, op):
        op["stream"], op["rank"] = stream, r.number
        if r.open is not None:
            r.open.append(op)
        else:
            r.queues.setdefault(stream, []).append([op])

    def collective(self, r, args):
        comm, kind, count = r.comms[int(args[0])], args[1], args[2]
        if count == "0":
            raise TooHard("NCCL does nothing for a count of 0")
        if not comm:
            return
        stream, root = (args + ["0", "0"][len(args) - 3:])[3:5] if len(args) < 5 else args[3:5]
        nth = r.issued[comm] = r.issued.get(comm, 0) + 1
        op = {"what": "coll", "comm": comm, "nth": nth, "same": (kind, count, root),
              "kind": kind, "root": int(root), "done": False}
        comm.calls[r.number, nth] = op
        self.enqueue(r, stream, op)

    def half(self, r, word, c, peer, count, stream):
        comm = r.comms[c]
        if not comm or peer >= len(comm.members):
            return
        other = comm.members[peer]
        way = (r.number, other) if word == "send" else (other, r.number)
        op = {"what": word, "comm": comm, "count": count, "done": False, "way": way}
        comm.halves.setdefault(way + (word,), []).append(op)
        op["nth"] = len(comm.halves[way + (word,)]) - 1
        self.enqueue(r, stream, op)

    def settle(self):
        moved = False
        for r in self.ranks:
            for queue in r.queues.values():
                while queue and all(op["done"] for op in queue[0]):
                    queue.pop(0)
                for op in queue[0] if queue else []:
                    op["begun"] = True
        for r in self.ranks:
            for queue in r.queues.values():
                for op in queue[0] if queue else []:
                    if not op["done"] and self.can_end(op):
                        op["done"] = moved = True
        return moved

    def can_end(self, op):
        if op["what"] == "block":
            return False
        comm = op["comm"]
        if op["what"] in ("send", "recv"):
            twin = comm.halves.get(op["way"] + ("recv" if op["what"] == "send" else "send",), [])
            other = twin[op["nth"]] if op["nth"] < len(twin) else {}
            if self.lenient and op["what"] == "send" and op["count"] * 4 <= SMALL:
                return True
            return bool(other.get("begun") or other.get("done"))
        all_in = [comm.calls.get((m, op["nth"]), {}) for m in comm.members]
        begun = [bool(o.get("begun") or o.get("done")) for o in all_in]
        me = comm.members.index(op["rank"])
        if self.lenient and op["kind"] == "broadcast":
            return me == op["root"] or begun[op["root"]]
        if self.lenient and op["kind"] == "reduce" and me != op["root"]:
            return True
        return all(begun) and len({o["same"] for o in all_in}) == 1


class Oracle:
    """Facts on which both ways to play agree; None: not known."""

    def __init__(self, scene):
        self.plays = []
        if scene.lang == "c":
            try:
                self.plays = [Play(scene.script, scene.n, scene.job, lenient) for lenient in (False, True)]
            except TooHard:
                pass

    def agree(self, fact):
        said = {fact(play) for play in self.plays}
        return said.pop() if len(said) == 1 else None

    @staticmethod
    def comms_named(play, name):
        found = {c for r in play.ranks for c in r.comms if c and c.name == name}
        return found

    def calls_made(self, name, number, counts):
        """The job ranks whose collective @number of the one communicator @name was made, not only put into an open group, and @counts."""
        def fact(play):
            comms = self.comms_named(play, name)
            if len(comms) != 1:
                return None
            calls = comms.pop().calls
            return frozenset(m for m, n in calls if n == number and counts(calls[m, n]) and
                             not any(op is calls[m, n] for op in play.ranks[m].open or []))
        return self.agree(fact)

    def entered(self, name, number):
        return self.calls_made(name, number, lambda call: True)

    def waiting(self, name, number):
        """Those of them that are not through, such as a root whose data is buffered."""
        return self.calls_made(name, number, lambda call: not call["done"])

    def members(self, name):
        def fact(play):
            comms = self.comms_named(play, name)
            return frozenset(comms.pop().members) if len(comms) == 1 else None
        return self.agree(fact)

    def is_unfinished(self, rank, name, number):
        def fact(play):
            ops = [c.calls[rank, number] for c in self.comms_named(play, name)
                   if (rank, number) in c.calls]
            return not ops[0]["done"] if len(ops) == 1 else False
        return self.agree(fact)

    def state(self, rank):
        return self.agree(lambda play: play.ranks[rank].state)
