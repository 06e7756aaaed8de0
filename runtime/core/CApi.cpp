//===- CApi.cpp - The C interface -----------------------------------------===//

#include "forebay/runtime.h"

#include "Checkpoint.h"
#include "Session.h"
#include "Weights.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace forebay;
using namespace forebay::rt;

struct fb_program {
  std::unique_ptr<LoadedProgram> loaded;
};

struct fb_session : StepData {
  fb_program *owner = nullptr;
  std::unique_ptr<Session> session;
  fb_feed_fn callback = nullptr;
  void *user = nullptr;

  void feed(uint32_t tensor, uint64_t micro, void *destination) override {
    const Tensor &input = session->program().tensors[tensor];
    if (callback)
      callback(user, input.name.c_str(), micro, destination, input.bytes);
    else
      std::memset(destination, 0, input.bytes);
  }
};

static thread_local std::string lastError;
static const char *const kNull = "only what runtime.h says may be null can be";

/// Runs `body`, which fills problems and returns a status. Nothing that it throws gets out.
template <typename Body>
static fb_status guarded(Body body) noexcept {
  try {
    lastError.clear();
    Problems problems;
    fb_status status = body(problems);
    lastError = problems.text();
    return status;
  } catch (const std::bad_alloc &) {
    lastError.clear(); // no memory for words either
    return FB_NO_RESOURCES;
  } catch (const std::exception &e) {
    try {
      lastError = std::string("error: runtime: ") + e.what() + "\nnote: this is a bug in the runtime, or in a file that it read\n";
    } catch (...) {
    }
    return FB_INTERNAL;
  } catch (...) {
    return FB_INTERNAL;
  }
}

static fb_status invalid(Problems &problems, const std::string &where, const std::string &what, const std::string &hint) {
  problems.error(where, what, hint);
  return FB_INVALID_ARGUMENT;
}

uint32_t fb_runtime_abi(void) { return FOREBAY_RUNTIME_ABI; }

const char *fb_error(void) { return lastError.c_str(); }

fb_status fb_program_open(const char *path, fb_program **program) {
  return guarded([&](Problems &problems) {
    if (!path || !program)
      return invalid(problems, "fb_program_open", "null argument", kNull);
    *program = nullptr;
    std::unique_ptr<LoadedProgram> loaded = loadProgram(path, problems);
    if (!loaded)
      return FB_BAD_PROGRAM;
    *program = new fb_program{std::move(loaded)};
    return FB_OK;
  });
}

void fb_program_close(fb_program *program) { delete program; }

fb_status fb_program_space(const fb_program *program, uint32_t index, const char **name, uint64_t *bytes) {
  return guarded([&](Problems &problems) {
    if (!program || !name || !bytes || index >= program->loaded->program.spaces.size())
      return invalid(problems, "fb_program_space", "no such space", "count from 0 until FB_INVALID_ARGUMENT");
    *name = program->loaded->program.spaces[index].name.c_str();
    *bytes = program->loaded->program.spaces[index].arenaBytes;
    return FB_OK;
  });
}

fb_status fb_program_tensor(const fb_program *program, uint32_t index, fb_tensor_info *info) {
  return guarded([&](Problems &problems) {
    if (!program || !info || index >= program->loaded->program.tensors.size())
      return invalid(problems, "fb_program_tensor", "no such tensor", "count from 0 until FB_INVALID_ARGUMENT");
    const Tensor &tensor = program->loaded->program.tensors[index];
    *info = {tensor.name.c_str(),     name(tensor.role), name(tensor.type), tensor.shape.data(),
             uint32_t(tensor.shape.size()), tensor.bytes};
    return FB_OK;
  });
}

fb_status fb_session_create(fb_program *program, const fb_session_options *options, fb_session **session) {
  return guarded([&](Problems &problems) {
    if (!program || !session || (options && options->size < sizeof(fb_session_options)))
      return invalid(problems, "fb_session_create", "null argument, or options of another size", "set `size` to sizeof(fb_session_options)");
    *session = nullptr;
    SessionOptions own;
    auto result = std::make_unique<fb_session>();
    if (options) {
      own.threads = options->threads;
      std::string error, hint;
      if (options->lr_schedule && !Schedule::parse(options->lr_schedule, own.schedule, error, hint)) {
        problems.error("lr_schedule", error, hint);
        return FB_INVALID_ARGUMENT;
      }
      if (!own.schedule.hasTotal)
        own.schedule.total = std::max(options->total_steps, own.schedule.warmup);
      for (const char *const *entry = options->hyper; entry && *entry; ++entry)
        own.hyper.push_back(*entry);
      result->callback = options->feed;
      result->user = options->feed_user;
    }
    result->owner = program;
    unsigned before = problems.errors();
    result->session = Session::create(*program->loaded, own, problems);
    if (!result->session)
      return problems.errors() == before || problems.text().find("error: --hyper") == std::string::npos ? FB_NO_RESOURCES : FB_INVALID_ARGUMENT;
    result->session->setData(result.get());
    *session = result.release();
    return FB_OK;
  });
}

void fb_session_destroy(fb_session *session) { delete session; }

static fb_status load(fb_session *session, const char *path, bool init, uint64_t seed) {
  return guarded([&](Problems &problems) {
    if (!session)
      return invalid(problems, "weights", "null session", kNull);
    WeightOptions options;
    options.source = path ? path : "";
    options.hasInit = init;
    options.initSeed = seed;
    return loadWeights(*session->session, session->owner->loaded->path, options, problems) ? FB_OK : FB_BAD_WEIGHTS;
  });
}

fb_status fb_session_load_weights(fb_session *session, const char *path) { return load(session, path, false, 0); }
fb_status fb_session_init_weights(fb_session *session, uint64_t seed) { return load(session, nullptr, true, seed); }

fb_status fb_session_save_weights(fb_session *session, const char *path) {
  return guarded([&](Problems &problems) {
    if (!session || !path)
      return invalid(problems, "fb_session_save_weights", "null argument", kNull);
    std::string error;
    if (saveWeights(*session->session, path, error))
      return FB_OK;
    problems.error(path, error, "choose a file that may be written");
    return FB_IO;
  });
}

static fb_status transfer(fb_session *session, const char *tensor, const void *source, void *destination, uint64_t bytes) {
  return guarded([&](Problems &problems) {
    if (!session || !tensor || (bytes != 0 && !source && !destination))
      return invalid(problems, "tensor", "null argument", kNull);
    int index = session->session->find(tensor);
    if (index < 0)
      return invalid(problems, tensor, "the program has no such tensor", "fb_program_tensor lists them");
    const Tensor &info = session->session->program().tensors[index];
    if (info.bytes != bytes)
      return invalid(problems, tensor, "has " + std::to_string(info.bytes) + " bytes, not " + std::to_string(bytes),
                     "fb_program_tensor says the size");
    if (destination) {
      session->session->read(size_t(index), destination);
      return FB_OK;
    }
    session->session->write(size_t(index), source);
    if (info.role == Role::Parameter)
      session->session->refreshCopies();
    return FB_OK;
  });
}

fb_status fb_session_write(fb_session *session, const char *tensor, const void *data, uint64_t bytes) {
  return transfer(session, tensor, data, nullptr, bytes);
}

fb_status fb_session_read(fb_session *session, const char *tensor, void *data, uint64_t bytes) {
  return transfer(session, tensor, nullptr, data, bytes);
}

fb_status fb_session_run(fb_session *session, uint64_t steps, fb_step_fn done, void *user, uint64_t *ran) {
  return guarded([&](Problems &problems) {
    if (!session)
      return invalid(problems, "fb_session_run", "null session", kNull);
    std::atomic<int> stop{0};
    uint64_t count = session->session->run(
        steps,
        [&](const StepResult &result) {
          if (!done)
            return;
          const std::vector<Tensor> &tensors = session->session->program().tensors;
          fb_step step = {result.step,
                          result.loss,
                          result.norm,
                          result.lr,
                          result.applied,
                          result.clipped,
                          result.nonfinite >= 0 ? tensors[result.nonfinite].name.c_str() : nullptr,
                          double(result.times.end - result.times.begin) * 1e-9};
          if (done(user, &step) != 0)
            stop = 1;
        },
        &stop);
    session->session->flush();
    if (ran)
      *ran = count;
    return session->session->reportBadIndex(problems) ? FB_BAD_DATA : FB_OK;
  });
}
