"""usage: change-plan.py BENCH PLAN RESULT FIELD=VALUE...: a plan with fields of all buckets changed (bench/benchkit.py names them)."""
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from benchkit import Placement

placement = Placement(Path(sys.argv[2]))
placement.change_buckets(**dict(pair.split("=") for pair in sys.argv[4:]))
placement.write(Path(sys.argv[2]), Path(sys.argv[3]))
