//===- Kernels.cpp - Built-in kernels against what the machine allows -----===//
//
// Each row compares a kernel with a limit measured in the same run, in turns: matrix products with OpenBLAS's own threads, kernels
// that stream memory with plain loops that do nothing else, attention with large products at OpenBLAS's best.
// All threads work on both sides. Medians.
//
//===----------------------------------------------------------------------===//

#include "forebay/builtin_kernels.h"
#include "forebay/kernels.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <sched.h>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

using namespace forebay::kernels;

namespace {

int allowedCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Workers that wait for jobs; the calling thread is one of them.
class Team {
public:
  explicit Team(int size) : size(size) {
    for (int i = 1; i < size; ++i)
      threads.emplace_back([this, i] { serve(i); });
    warmUpBlas();
  }
  ~Team() {
    start(nullptr);
    for (std::thread &thread : threads)
      thread.join();
  }
  void run(const std::function<void(int)> &job) {
    start(&job);
    job(0);
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, [&] { return running == 0; });
  }
  const int size;

private:
  void start(const std::function<void(int)> *job) {
    std::lock_guard<std::mutex> lock(mutex);
    current = job, running = size - 1, ++round;
    wake.notify_all();
  }
  void serve(int index) {
    warmUpBlas();
    for (int seen = 0;;) {
      const std::function<void(int)> *job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return round != seen; });
        seen = round, job = current;
      }
      if (!job)
        return;
      (*job)(index);
      std::lock_guard<std::mutex> lock(mutex);
      if (--running == 0)
        done.notify_one();
    }
  }
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(int)> *current = nullptr;
  int running = 0, round = 0;
};

struct Array {
  explicit Array(int64_t count) : count(count), data(static_cast<float *>(std::aligned_alloc(64, size_t(count * 4 + 63) / 64 * 64))) {
    for (int64_t i = 0; i < count; ++i)
      data.get()[i] = float((i * 2654435761u >> 8) % 2001) * 0.001f - 1.0f;
  }
  operator float *() const { return data.get(); }
  struct Free {
    void operator()(float *p) const { std::free(p); }
  };
  int64_t count;
  std::unique_ptr<float, Free> data;
};

struct Dispatch {
  const KernelEntry *kernel;
  std::vector<int64_t> params;
  Launch launch;
  std::vector<void *> operands;
  std::shared_ptr<Array> workspace;
  std::vector<std::shared_ptr<Array>> scratch;

  template <typename P>
  Dispatch(Team &team, const char *name, const P &p, Launch launch, std::vector<void *> operands)
      : kernel(lookupBuiltin(name)), params(sizeof(P) / 8), launch(launch), operands(std::move(operands)) {
    std::memcpy(params.data(), &p, sizeof p);
    if (launch.workspaceBytes) {
      workspace = std::make_shared<Array>(launch.workspaceBytes / 4 + 16);
      this->operands.push_back(*workspace);
    }
    for (int i = 0; i < team.size; ++i)
      scratch.push_back(std::make_shared<Array>(launch.scratchBytes / 4 + 16));
  }
  void run(Team &team) {
    for (int phase = 0; phase < launch.phases; ++phase) {
      std::atomic<int64_t> next{0};
      team.run([&](int worker) {
        for (int64_t tile; (tile = next++) < launch.tiles[phase];)
          kernel->function(operands.data(), params.data(), phase, tile, *scratch[worker]);
      });
    }
  }
};

struct Row {
  std::string name;
  double ours, reference;
  const char *unit;
  double wanted;
  double ratio() const { return ours / reference; }
  bool ok() const { return ratio() >= wanted; }
};

class Bench {
public:
  explicit Bench(Team &team) : team(team) {}

  /// `work` units are done by both sides; speeds are work / time.
  void compare(const std::string &name, double work, const char *unit, double wanted, const std::function<void()> &ours,
               double referenceWork, const std::function<void()> &reference) {
    if (name.find(filter) == std::string::npos)
      return;
    auto now = [this] {
      timespec t;
      clock_gettime(cpuTime ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
      return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
    };
    auto seconds = [&](const std::function<void()> &f) {
      double begin = now();
      f();
      return now() - begin;
    };
    ours(), reference();
    std::vector<double> a, b;
    for (int i = 0; i < 9; ++i) {
      a.push_back(seconds(ours));
      b.push_back(seconds(reference));
    }
    auto median = [](std::vector<double> &v) {
      std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
      return v[v.size() / 2];
    };
    Row row{name, work / median(a), referenceWork / median(b), unit, wanted};
    std::printf("%-58s %8.1f %8.1f %-6s %5.2f %5.2f %s\n", name.c_str(), row.ours, row.reference, unit, row.ratio(), wanted,
                row.ok() ? "ok" : "LOW");
    std::fflush(stdout);
    rows.push_back(row);
  }
  void split(int64_t n, const std::function<void(int64_t, int64_t)> &body) {
    team.run([&](int worker) { body(n * worker / team.size, n * (worker + 1) / team.size); });
  }

  Team &team;
  std::string filter;
  bool cpuTime = false;
  std::vector<Row> rows;
};

// What streaming `n` elements costs at best: loops that do nothing else.
typedef float Lanes __attribute__((vector_size(64)));
volatile float sink;
void readOnly(Bench &bench, const float *x, int64_t n) {
  bench.split(n / 64, [&](int64_t begin, int64_t end) {
    Lanes sum[4] = {};
    for (int64_t i = begin; i < end; ++i)
      for (int j = 0; j < 4; ++j) {
        Lanes v;
        std::memcpy(&v, x + i * 64 + j * 16, sizeof v);
        sum[j] += v;
      }
    sink = sum[0][0] + sum[1][0] + sum[2][0] + sum[3][0];
  });
}
void copyOnly(Bench &bench, float *y, const float *x, int64_t n) {
  bench.split(n, [&](int64_t begin, int64_t end) { std::memcpy(y + begin, x + begin, size_t(end - begin) * 4); });
}
void addOnly(Bench &bench, float *y, const float *x, int64_t n) {
  bench.split(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] += x[i];
  });
}
void scaleOnly(Bench &bench, float *y, int64_t n) {
  bench.split(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] *= 1.0000001f;
  });
}
void clearOnly(Bench &bench, float *y, int64_t n) {
  bench.split(n, [&](int64_t begin, int64_t end) { std::memset(y + begin, 0, size_t(end - begin) * 4); });
}

void benchGemm(Bench &bench, int64_t m, int64_t n, int64_t k, bool transA, bool transB) {
  GemmParams p{};
  p.m = m, p.n = n, p.k = k, p.transA = transA, p.transB = transB;
  p.lda = transA ? m : k, p.ldb = transB ? k : n, p.ldc = n;
  for (int64_t &size : p.batch)
    size = 1;
  setGemmTile(p);
  Array a(m * k), b(k * n), c(m * n);
  Dispatch ours(bench.team, "gemm", p, gemmLaunch(p), {(float *)a, (float *)b, (float *)c});
  char name[128];
  std::snprintf(name, sizeof name, "gemm [%ld,%ld]x[%ld,%ld]%s%s / OpenBLAS, %d threads", long(m), long(k), long(k), long(n),
                transA ? " A^T" : "", transB ? " B^T" : "", bench.team.size);
  double flops = 2e-9 * double(m) * double(n) * double(k);
  bench.compare(
      name, flops, "GF/s", 0.85, [&] { openblas_set_num_threads(1), ours.run(bench.team); }, flops,
      [&] {
        openblas_set_num_threads(bench.team.size);
        cblas_sgemm(CblasRowMajor, transA ? CblasTrans : CblasNoTrans, transB ? CblasTrans : CblasNoTrans, int(m), int(n), int(k),
                    1.0f, a, int(p.lda), b, int(p.ldb), 0.0f, c, int(p.ldc));
        openblas_set_num_threads(1);
      });
}

void benchAttention(Bench &bench, int64_t batch, int64_t heads, int64_t kvHeads, int64_t seq, int64_t dim, bool causal) {
  AttentionParams p{};
  p.batch = batch, p.heads = heads, p.kvHeads = kvHeads, p.queries = p.keys = seq, p.dim = p.valueDim = dim, p.causal = causal;
  p.scale = toBits(0.125);
  setAttentionTile(p);
  auto view = [&](int64_t h) { return View{0, {0, 0, seq * h * dim, dim, h * dim, 1}}; };
  p.q = p.o = p.dO = p.dq = view(heads), p.k = p.v = p.dk = p.dv = view(kvHeads);
  int64_t count = batch * heads * seq * dim, kvCount = batch * kvHeads * seq * dim;
  Array q(count), k(kvCount), v(kvCount), o(count), lse(batch * heads * seq), dO(count), dq(count), dk(kvCount), dv(kvCount);
  Dispatch forward(bench.team, "attention", p, attentionLaunch(p), {(float *)q, (float *)k, (float *)v, (float *)o, (float *)lse});
  Dispatch backward(bench.team, "attention_grad", p, attentionGradLaunch(p),
                    {(float *)dO, (float *)q, (float *)k, (float *)v, (float *)o, (float *)lse, (float *)dq, (float *)dk, (float *)dv});
  // Flops of the visible part alone, so that what is computed in vain at the diagonal counts against us.
  double pairs = double(batch * heads) * (causal ? seq * (seq + 1) / 2 : seq * seq), flops = 2e-9 * pairs * double(dim);
  Array x(512 * 512), y(512 * 512), z(int64_t(bench.team.size) * 512 * 512);
  auto products = [&] {
    bench.team.run([&](int worker) {
      for (int i = 0; i < 4; ++i)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 512, 512, 512, 1.0f, x, 512, y, 512, 0.0f, z + worker * 512 * 512, 512);
    });
  };
  double productFlops = 2e-9 * 4 * bench.team.size * 512.0 * 512 * 512;
  char name[128];
  std::snprintf(name, sizeof name, "attention [%ld,%ld/%ld,%ld,%ld]%s", long(batch), long(heads), long(kvHeads), long(seq), long(dim),
                causal ? " causal" : "");
  bench.compare(name + std::string(" / sgemm 512^3"), 2 * flops, "GF/s", causal ? 0.4 : 0.55, [&] { forward.run(bench.team); }, productFlops,
                products);
  bench.compare(name + std::string(" gradient / sgemm 512^3"), (p.split ? 7 : 5) * flops, "GF/s", causal ? 0.5 : 0.6,
                [&] { backward.run(bench.team); }, productFlops, products);
}

void benchRows(Bench &bench) {
  auto gigabytes = [](int64_t elements) { return 4e-9 * double(elements); };
  {
    int64_t rows = 24576, cols = 256, n = rows * cols;
    RowsParams p{rows, cols, defaultRowsPerTile(rows, cols)};
    Array x(n), y(n), dy(n);
    Dispatch forward(bench.team, "softmax", p, softmaxLaunch(p), {(float *)x, (float *)y});
    bench.compare("softmax [24576,256] / memcpy", gigabytes(2 * n), "GB/s", 0.4, [&] { forward.run(bench.team); },
                  gigabytes(2 * n), [&] { copyOnly(bench, y, x, n); });
    Dispatch backward(bench.team, "softmax_grad", p, softmaxLaunch(p), {(float *)dy, (float *)y, (float *)x});
    bench.compare("softmax_grad [24576,256] / y += x", gigabytes(3 * n), "GB/s", 0.7, [&] { backward.run(bench.team); },
                  gigabytes(3 * n), [&] { addOnly(bench, y, x, n); });
  }
  {
    int64_t rows = 8192, cols = 768, n = rows * cols;
    NormParams p{rows, cols, defaultRowsPerTile(rows, cols), 1, 1, 0, toBits(1e-5)};
    Array x(n), y(n), dy(n), w(cols), b(cols), mean(rows), rstd(rows), dw(cols), db(cols);
    Dispatch forward(bench.team, "layer_norm", p, normLaunch(p),
                     {(float *)x, (float *)w, (float *)b, (float *)y, (float *)mean, (float *)rstd});
    bench.compare("layer_norm [8192,768] / memcpy", gigabytes(2 * n), "GB/s", 0.7, [&] { forward.run(bench.team); },
                  gigabytes(2 * n), [&] { copyOnly(bench, y, x, n); });
    NormParams g = p;
    g.rowsPerTile = defaultGradRowsPerTile(rows, cols);
    Dispatch backward(bench.team, "layer_norm_grad", g, normGradLaunch(g, 2),
                      {(float *)dy, (float *)x, (float *)mean, (float *)rstd, (float *)w, (float *)y, (float *)dw, (float *)db});
    bench.compare("layer_norm_grad [8192,768] / y += x", gigabytes(3 * n), "GB/s", 0.6, [&] { backward.run(bench.team); },
                  gigabytes(3 * n), [&] { addOnly(bench, y, x, n); });
    p.hasBias = 0;
    Dispatch rms(bench.team, "rms_norm", p, normLaunch(p), {(float *)x, (float *)w, (float *)y, (float *)rstd});
    bench.compare("rms_norm [8192,768] / memcpy", gigabytes(2 * n), "GB/s", 0.7, [&] { rms.run(bench.team); }, gigabytes(2 * n),
                  [&] { copyOnly(bench, y, x, n); });
    ReduceParams r{1, rows, cols, 0, 0, 0};
    setReduceTile(r);
    Dispatch sum(bench.team, "reduce", r, reduceLaunch(r), {(float *)x, (float *)dw});
    bench.compare("reduce [8192,768] -> [768] / read", gigabytes(n), "GB/s", 0.7, [&] { sum.run(bench.team); }, gigabytes(n),
                  [&] { readOnly(bench, x, n); });
    CopyParams t{{1, 1, 1, 1, cols, rows}, {0, {0, 0, 0, 0, 1, cols}}, {0, {0, 0, 0, 0, rows, 1}}, 4, 1};
    setCopyTile(t);
    Dispatch transpose(bench.team, "copy", t, copyLaunch(t), {(float *)x, (float *)y});
    bench.compare("copy [8192,768] transposed / memcpy", gigabytes(2 * n), "GB/s", 0.4, [&] { transpose.run(bench.team); },
                  gigabytes(2 * n), [&] { copyOnly(bench, y, x, n); });
    CopyParams h{{1, 1, 32, 12, 256, 64}, {0, {0, 0, 256 * 768, 64, 768, 1}}, {0, {0, 0, 256 * 768, 256 * 64, 64, 1}}, 4, 1};
    setCopyTile(h);
    Dispatch swap(bench.team, "copy", h, copyLaunch(h), {(float *)x, (float *)y});
    bench.compare("copy [32,256,12,64] -> [32,12,256,64] / memcpy", gigabytes(2 * n), "GB/s", 0.6, [&] { swap.run(bench.team); },
                  gigabytes(2 * n), [&] { copyOnly(bench, y, x, n); });
  }
  {
    int64_t rows = 1024, cols = 50257, n = rows * cols;
    CrossEntropyParams p{rows, cols, 8, -100, 0, defaultRowsPerTile(rows, cols)};
    Array x(n), lse(rows), loss(1), dloss(1);
    std::vector<int64_t> labels(rows);
    for (int64_t r = 0; r < rows; ++r)
      labels[r] = r * 37 % cols;
    Dispatch forward(bench.team, "cross_entropy", p, crossEntropyLaunch(p), {(float *)x, labels.data(), (float *)loss, (float *)lse});
    bench.compare("cross_entropy [1024,50257] / read", gigabytes(n), "GB/s", 0.3, [&] { forward.run(bench.team); }, gigabytes(n),
                  [&] { readOnly(bench, x, n); });
    Dispatch backward(bench.team, "cross_entropy_grad", p, crossEntropyGradLaunch(p),
                      {(float *)dloss, (float *)x, labels.data(), (float *)lse, (float *)x});
    bench.compare("cross_entropy_grad [1024,50257] in place / y *= c", gigabytes(2 * n), "GB/s", 0.35,
                  [&] { backward.run(bench.team); }, gigabytes(2 * n), [&] { scaleOnly(bench, x, n); });
  }
  {
    int64_t rows = 50257, cols = 768, n = rows * cols, tokens = 1024;
    Array x(n), y(n), grad(tokens * cols), partials(n / 1024 + 1);
    FlatParams p{n, 1, kElementsPerTile};
    Dispatch norm(bench.team, "norm_partials", p, flatLaunch(p), {(float *)x, (float *)partials});
    bench.compare("norm_partials 38.6M / read", gigabytes(n), "GB/s", 0.8, [&] { norm.run(bench.team); }, gigabytes(n),
                  [&] { readOnly(bench, x, n); });
    Dispatch add(bench.team, "accumulate", p, flatLaunch(p), {(float *)y, (float *)x, (float *)y});
    bench.compare("accumulate 38.6M / y += x", gigabytes(3 * n), "GB/s", 0.8, [&] { add.run(bench.team); }, gigabytes(3 * n),
                  [&] { addOnly(bench, y, x, n); });
    std::vector<int64_t> ids(tokens);
    for (int64_t i = 0; i < tokens; ++i)
      ids[i] = i * 7919 % rows;
    EmbeddingParams e{rows, cols, tokens, 8, 4, embeddingGradRowsPerTile(rows, cols), 0};
    Dispatch table(bench.team, "embedding_grad", e, embeddingGradLaunch(e), {(float *)grad, ids.data(), (float *)y});
    bench.compare("embedding_grad [50257,768], 1024 ids / memset", gigabytes(n), "GB/s", 0.4, [&] { table.run(bench.team); },
                  gigabytes(n), [&] { clearOnly(bench, y, n); });
  }
}

} // namespace

int main(int argc, char **argv) {
  std::string json, filter;
  int threads = allowedCores();
  bool cpuTime = false;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (arg.rfind("--json=", 0) == 0) {
      json = arg.substr(7);
    } else if (arg.rfind("--threads=", 0) == 0) {
      threads = std::max(1, std::atoi(arg.c_str() + 10));
    } else if (arg.rfind("--filter=", 0) == 0) {
      filter = arg.substr(9);
    } else if (arg == "--cpu-time") {
      cpuTime = true; // for a busy machine: CPU seconds of the process, with --threads=1
    } else {
      std::printf("usage: bench/kernels [--json FILE] [--threads=N] [--filter=TEXT] [--cpu-time]\n");
      return arg == "--help" ? 0 : 1;
    }
  }
  std::printf("instruction set %s, BLAS kernel %s, %d threads\n", instructionSet(), blasKernel(), threads);
  std::printf("%-58s %8s %8s %-6s %5s %5s\n", "name", "ours", "limit", "unit", "ratio", "want");
  Team team(threads);
  Bench bench(team);
  bench.filter = filter;
  bench.cpuTime = cpuTime;
  benchGemm(bench, 1024, 3072, 768, false, false);
  benchGemm(bench, 1024, 768, 3072, false, true);
  benchGemm(bench, 768, 3072, 1024, true, false);
  benchGemm(bench, 1024, 768, 768, false, false);
  benchGemm(bench, 1024, 50257, 768, false, true);
  benchAttention(bench, 8, 12, 12, 256, 64, false);
  benchAttention(bench, 8, 12, 12, 256, 64, true);
  benchAttention(bench, 1, 8, 2, 2048, 64, true);
  benchRows(bench);

  bool ok = true;
  for (const Row &row : bench.rows)
    ok &= row.ok();
  if (!json.empty()) {
    FILE *file = std::fopen(json.c_str(), "w");
    if (!file) {
      std::fprintf(stderr, "error: %s: cannot be written\n", json.c_str());
      return 1;
    }
    std::fprintf(file, "[");
    for (size_t i = 0; i < bench.rows.size(); ++i) {
      const Row &row = bench.rows[i];
      std::fprintf(file, "%s\n {\"name\": \"%s\", \"ours\": %.6g, \"reference\": %.6g, \"ratio\": %.4f, \"unit\": \"%s\", \"wanted\": %g, \"ok\": %s}",
                   i ? "," : "", row.name.c_str(), row.ours, row.reference, row.ratio(), row.unit, row.wanted,
                   row.ok() ? "true" : "false");
    }
    std::fprintf(file, "\n]\n");
    std::fclose(file);
  }
  return ok ? 0 : 1;
}
