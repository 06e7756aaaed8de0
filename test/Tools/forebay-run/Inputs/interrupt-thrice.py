"""usage: interrupt-thrice.py PIPE COMMAND...: the command writes to PIPE, which nobody empties; interrupts it until it ends."""
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time

pipe, command = sys.argv[1], sys.argv[2:]
os.mkfifo(pipe)
reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
waiting, before, begin = 0, -1, time.time()
while time.time() - begin < 60 and (waiting < 50000 or waiting != before):  # full
    before = waiting
    time.sleep(0.2)
    waiting = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"    "))[0]
for _ in range(3):
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
_, text = process.communicate(timeout=60)
print(text)
print("exit status", process.returncode)
