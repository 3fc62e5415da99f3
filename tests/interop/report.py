"""What a suite has seen of its registry: one row of the table in docs/registries.md."""

import contextlib
import threading


class NothingLost:
    """Looks all the time whether those that must be there are listed, and somebody can be picked."""

    def __init__(self, daemon, ids, service):
        self.daemon, self.ids, self.service = daemon, set(ids), service
        self.looks, self.lost = 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.looks or not self.over.wait(0.05):
            try:
                listed = set(self.daemon.listed(self.service))
                picked = self.daemon.pick(self.service).status
            except Exception as failure:  # a thread's own is not seen by the test
                listed, picked = {repr(failure)}, None
            self.looks += 1
            if not self.ids <= listed or picked != 200:
                self.lost.append((listed, picked))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def quantile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


class Report:
    def __init__(self, name, server):
        self.name, self.server = name, server
        self.outcomes = {"passed": 0, "failed": 0, "error": 0}
        self.milliseconds, self.faults, self.facts = [], {}, {}

    def count(self, outcome):
        self.outcomes[outcome] += 1

    def times(self, milliseconds):
        """Each from before the write in the registry to the line at a watcher."""
        self.milliseconds += milliseconds

    def fact(self, name, value):
        """What else was measured: fact("100,000 endpoints listed after", "12 s")."""
        self.facts[name] = value

    @contextlib.contextmanager
    def nothing_lost(self, daemon, ids, fault, service="catalog"):
        """Around a fault ("killed", "frozen"): those ids are listed, and picks succeed, all the time."""
        with NothingLost(daemon, ids, service) as seen:
            yield
        self.faults[fault] = self.faults.get(fault, 0) + seen.looks
        assert seen.looks, f"{fault}: it was never looked whether {seen.ids} are listed"
        assert not seen.lost, f"{fault}: {len(seen.lost)} of {seen.looks} looks had less than {seen.ids}: {seen.lost[:3]}"

    def measured(self):
        if not self.milliseconds:
            return None
        return {"p50_ms": round(quantile(self.milliseconds, 0.5), 1), "p99_ms": round(quantile(self.milliseconds, 0.99), 1),
                "writes": len(self.milliseconds)}

    def as_json(self):
        return {"registry": self.name, "server": self.server, **self.outcomes, "write_to_line": self.measured(),
                "nothing_lost_while": self.faults, "facts": self.facts}

    def as_row(self):
        times = self.measured()
        cells = [f"[{self.name}](../plugins/discovery/{self.name}/README.md)", self.server,
                 f"{times['p50_ms']:.0f} ms / {times['p99_ms']:.0f} ms" if times else "", ", ".join(self.faults),
                 "; ".join(f"{name} {value}" for name, value in self.facts.items())]
        return "| " + " | ".join(cells) + " |"
