"""usage: interrupt-early.py COMMAND...: interrupts the command as soon as it listens."""
import signal
import subprocess
import sys
import time

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
begin = time.time()
while time.time() - begin < 60 and process.poll() is None:
    status = dict(line.split(":\t") for line in open("/proc/%d/status" % process.pid) if ":\t" in line)
    if int(status.get("SigCgt", "0"), 16) >> (signal.SIGINT - 1) & 1:
        break
process.send_signal(signal.SIGINT)
_, text = process.communicate(timeout=60)
print(text)
print("exit status", process.returncode)
