"""plain_loop.py BEFORE.safetensors X.npy TARGET.npy METRICS.jsonl AFTER.safetensors [--lr=0.01]

Trains the model of README.md once more, without Forebay: loops over lists, gradients by hand, AdaBelief as in the paper. Compares the losses of
METRICS and the weights of AFTER. The model is evaluated in double precision; the optimizer rounds every operation to fp32, in the order of
adabelief.mlir, as the compiled update does.
"""
import json
import math
import struct
import sys

LOSS_LIMIT = 1e-5    # relative, each step: rounding of the forward part in fp32
WEIGHT_LIMIT = 1e-4  # distance of the weights, relative to how far training moved them


def f32(x):
    """The nearest fp32. Rounding the double result of + - * / sqrt of two fp32 numbers is what fp32 arithmetic gives."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read_safetensors(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = list(struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin : 8 + size + end]))
    return tensors


def read_npy(path):
    """Rows of fp32 numbers: one list of examples for each step, each example a list."""
    data = open(path, "rb").read()
    (size,) = struct.unpack("<H", data[8:10])
    header = data[10 : 10 + size].decode()
    assert "'<f4'" in header and "'fortran_order': False" in header, header
    steps, batch, width = (int(n) for n in header.split("'shape': (")[1].split(")")[0].split(","))
    flat = iter(struct.unpack(f"<{steps * batch * width}f", data[10 + size :]))
    return [[[next(flat) for _ in range(width)] for _ in range(batch)] for _ in range(steps)]


def loss_and_gradients(w, xs, targets):
    """Linear, exact GELU, LayerNorm, Linear, mean squared error."""
    hidden, outputs = len(w["up.bias"]), len(w["down.bias"])
    inputs, count = len(xs[0]), len(xs) * outputs
    grads = {name: [0.0] * len(values) for name, values in w.items()}
    loss = 0.0
    for x, target in zip(xs, targets):
        u = [w["up.bias"][j] + sum(w["up.weight"][j * inputs + i] * x[i] for i in range(inputs)) for j in range(hidden)]
        g = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in u]
        mean = sum(g) / hidden
        rstd = 1 / math.sqrt(sum((v - mean) ** 2 for v in g) / hidden + 1e-5)
        z = [(v - mean) * rstd for v in g]
        n = [z[j] * w["norm.weight"][j] + w["norm.bias"][j] for j in range(hidden)]
        y = [w["down.bias"][k] + sum(w["down.weight"][k * hidden + j] * n[j] for j in range(hidden)) for k in range(outputs)]
        loss += sum((a - b) ** 2 for a, b in zip(y, target)) / count

        dy = [2 * (a - b) / count for a, b in zip(y, target)]
        dn = [sum(dy[k] * w["down.weight"][k * hidden + j] for k in range(outputs)) for j in range(hidden)]
        dz = [dn[j] * w["norm.weight"][j] for j in range(hidden)]
        dz_mean, dz_z = sum(dz) / hidden, sum(a * b for a, b in zip(dz, z)) / hidden
        dg = [rstd * (dz[j] - dz_mean - z[j] * dz_z) for j in range(hidden)]
        du = [dg[j] * (0.5 * (1 + math.erf(u[j] / math.sqrt(2))) + u[j] * math.exp(-u[j] ** 2 / 2) / math.sqrt(2 * math.pi)) for j in range(hidden)]
        for k in range(outputs):
            grads["down.bias"][k] += dy[k]
            for j in range(hidden):
                grads["down.weight"][k * hidden + j] += dy[k] * n[j]
        for j in range(hidden):
            grads["norm.weight"][j] += dn[j] * z[j]
            grads["norm.bias"][j] += dn[j]
            grads["up.bias"][j] += du[j]
            for i in range(inputs):
                grads["up.weight"][j * inputs + i] += du[j] * x[i]
    return loss, grads


def adabelief(p, g, m, s, t, lr, beta1=0.9, beta2=0.999, eps=1e-16):
    """One element; weight decay 0. Scalars in double precision, then fp32."""
    b1, r1, b2, r2 = f32(beta1), f32(1 - beta1), f32(beta2), f32(1 - beta2)
    c1, c2, e, rate = f32(1 - beta1**t), f32(1 - beta2**t), f32(eps), f32(lr)
    m = f32(f32(b1 * m) + f32(r1 * g))
    surprise = f32(g - m)
    s = f32(f32(f32(b2 * s) + f32(f32(r2 * surprise) * surprise)) + e)
    denominator = f32(f32(math.sqrt(f32(s / c2))) + e)
    return f32(p - f32(f32(rate * f32(m / c1)) / denominator)), m, s


files = [argument for argument in sys.argv[1:] if not argument.startswith("--lr=")]
lr = next((float(argument[5:]) for argument in sys.argv[1:] if argument.startswith("--lr=")), 0.01)
before, xs, targets = read_safetensors(files[0]), read_npy(files[1]), read_npy(files[2])
rows = [json.loads(line) for line in open(files[3])][1:]
after = read_safetensors(files[4])

weights = {name: list(values) for name, values in before.items()}
state = {name: [(0.0, 0.0)] * len(values) for name, values in before.items()}
worst = 0.0
for t, row in enumerate(rows, 1):
    loss, grads = loss_and_gradients(weights, xs[t - 1], targets[t - 1])
    worst = max(worst, abs(loss - row["loss"]) / abs(loss))
    for name, values in weights.items():
        for i, value in enumerate(values):
            m, s = state[name][i]
            values[i], m, s = adabelief(value, f32(grads[name][i]), m, s, t, lr)
            state[name][i] = (m, s)

apart = math.sqrt(sum((a - b) ** 2 for name in after for a, b in zip(after[name], weights[name])))
moved = math.sqrt(sum((a - b) ** 2 for name in after for a, b in zip(before[name], weights[name])))
print(f"{len(rows)} steps, loss {rows[0]['loss']:.4f} to {rows[-1]['loss']:.4f}")
print(f"losses: largest relative difference {worst:.1e}, limit {LOSS_LIMIT:.0e}")
print(f"weights: {apart / moved:.1e} of the way that training moved them, limit {WEIGHT_LIMIT:.0e}")
if worst > LOSS_LIMIT or apart > WEIGHT_LIMIT * moved or not moved:
    sys.exit("error: forebay-run and the plain loop differ")
print("the same")
