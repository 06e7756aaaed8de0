"""usage: change-plan.py BENCH PLAN RESULT CHANGE...: a plan with fields of all buckets changed (FIELD=VALUE; bench/benchkit.py names them), with another source of weights (source=OLD,NEW), with another first piece
(piece=FIRST,LESS), with its first bucket twice (twice), or with the buckets in the reverse order (reversed)."""
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from benchkit import Placement

placement = Placement(Path(sys.argv[2]))
for change in sys.argv[4:]:
    what, _, value = change.partition("=")
    if what == "twice":
        placement.repeat_first_bucket()
    elif what == "source":
        placement.change_source(*value.split(","))
    elif what == "reversed":
        placement.reverse_buckets()
    elif what == "piece":
        placement.change_first_piece(*(int(number) for number in value.split(",")))
    else:
        placement.change_buckets(**{what: value})
placement.write(Path(sys.argv[2]), Path(sys.argv[3]))
