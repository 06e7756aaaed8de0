"""usage: interrupt.py FOLDER COMMAND...: starts the command, interrupts it once its metrics have rows, and says what is left."""
import json
import os
import signal
import subprocess
import sys
import time

folder, command = sys.argv[1], sys.argv[2:]
environment = dict(os.environ, FOREBAY_DELAY_SEED="1")  # steps long enough to be met in the middle
# Jobs in the background inherit that SIGINT is ignored.
process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
metrics = folder + "/m.jsonl"
begin = time.time()
while time.time() - begin < 60 and not (os.path.exists(metrics) and os.path.getsize(metrics) > 2000):
    time.sleep(0.01)
process.send_signal(signal.SIGINT)
text, _ = process.communicate(timeout=60)
print(text)
print("exit status", process.returncode)
last = [json.loads(line) for line in open(metrics)][-1]["step"]
print("metrics end at step", last)
names = sorted(os.listdir(folder + "/c"))
print("checkpoint of step", int(names[-1].split("-")[1].split(".")[0]), "others:", names[:-1])
print("weights are there" if os.path.exists(folder + "/w.safetensors") else "no weights")
