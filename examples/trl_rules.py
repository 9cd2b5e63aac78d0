"""What the outcome cannot see, as rules over the calls: a file is read before it is edited."""

from apportion.rewards import before, called

rules = [before(called("read"), called("edit"), same="path", name="read_first")]
