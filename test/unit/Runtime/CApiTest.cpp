//===- CApiTest.cpp - The C interface -------------------------------------===//

#include "TinyModel.h"

#include "forebay/runtime.h"

#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

using namespace forebay::testing;

extern "C" fb_session_options forebay_test_options(fb_feed_fn feed, void *user);

namespace {

const std::string folder = FOREBAY_TINY_FOLDER;

void feed(void *user, const char *input, uint64_t micro, void *row, uint64_t bytes) {
  ++*static_cast<std::atomic<int> *>(user);
  if (std::string(input) == "x")
    for (uint64_t i = 0; i < bytes / 4; ++i)
      static_cast<float *>(row)[i] = float((i + micro) % 5) * 0.25f;
  else
    for (uint64_t i = 0; i < bytes / 8; ++i)
      static_cast<int64_t *>(row)[i] = int64_t((i + micro) % kVocab);
}

TEST(CApi, TrainsAndReadsBack) {
  EXPECT_EQ(fb_runtime_abi(), uint32_t(FOREBAY_RUNTIME_ABI));
  fb_program *program = nullptr;
  ASSERT_EQ(fb_program_open((folder + "/offload.so").c_str(), &program), FB_OK) << fb_error();
  EXPECT_STREQ(fb_error(), "");
  const char *name;
  uint64_t bytes;
  EXPECT_EQ(fb_program_space(program, 1, &name, &bytes), FB_OK);
  EXPECT_STREQ(name, "host");
  EXPECT_EQ(fb_program_space(program, 2, &name, &bytes), FB_INVALID_ARGUMENT);
  fb_tensor_info info;
  ASSERT_EQ(fb_program_tensor(program, 1, &info), FB_OK);
  EXPECT_STREQ(info.name, "input_ids");
  EXPECT_STREQ(info.type, "i64");
  EXPECT_EQ(info.rank, 2u);

  std::atomic<int> fed{0};
  fb_session_options options = forebay_test_options(feed, &fed);
  const char *hyper[] = {"momentum=0.75", nullptr};
  options.hyper = hyper;
  fb_session *session = nullptr;
  ASSERT_EQ(fb_session_create(program, &options, &session), FB_OK) << fb_error();
  ASSERT_EQ(fb_session_load_weights(session, nullptr), FB_OK) << fb_error();
  std::vector<fb_step> steps;
  uint64_t ran = 0;
  auto collect = [](void *user, const fb_step *step) {
    static_cast<std::vector<fb_step> *>(user)->push_back(*step);
    return 0;
  };
  ASSERT_EQ(fb_session_run(session, 6, collect, &steps, &ran), FB_OK) << fb_error();
  EXPECT_EQ(ran, 6u);
  EXPECT_EQ(fed, 12);

  TinyReference reference;
  for (uint64_t micro = 0; micro < 6; ++micro) {
    std::vector<float> x(kRows * kWidth);
    std::vector<int64_t> ids(kRows);
    std::atomic<int> ignored{0};
    feed(&ignored, "x", micro, x.data(), x.size() * 4);
    feed(&ignored, "input_ids", micro, ids.data(), ids.size() * 8);
    reference.step({x}, {ids}, {}, [](uint64_t t) { return 0.125 * (1 - double(t) / 10); }, 0.75);
  }
  ASSERT_EQ(steps.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(steps[i].step, i + 1);
    EXPECT_EQ(steps[i].loss, reference.losses[i]);
    EXPECT_DOUBLE_EQ(steps[i].lr, reference.rates[i]);
    EXPECT_EQ(steps[i].nonfinite, nullptr);
  }
  std::vector<float> w(kWidth);
  ASSERT_EQ(fb_session_read(session, "layer.weight", w.data(), 12), FB_OK) << fb_error();
  EXPECT_EQ(w, reference.w);

  // Writing a parameter reaches the weight copy that the next step reads.
  std::vector<float> zero(kVocab, 0.0f);
  ASSERT_EQ(fb_session_write(session, "layer.weight", zero.data(), 12), FB_OK);
  ASSERT_EQ(fb_session_write(session, "embed.weight", zero.data(), 20), FB_OK);
  steps.clear();
  ASSERT_EQ(fb_session_run(session, 1, collect, &steps, nullptr), FB_OK);
  EXPECT_EQ(steps[0].loss, 1.0) << "y = 0";

  // The caller may end a run.
  auto enough = [](void *, const fb_step *step) { return step->step >= 9 ? 1 : 0; };
  ASSERT_EQ(fb_session_run(session, 1000000, enough, nullptr, &ran), FB_OK);
  EXPECT_LT(ran, 100u);

  std::string path = "/tmp/forebay-capi-" + std::to_string(getpid()) + ".safetensors";
  ASSERT_EQ(fb_session_save_weights(session, path.c_str()), FB_OK) << fb_error();
  ASSERT_EQ(fb_session_load_weights(session, path.c_str()), FB_OK) << fb_error();
  unlink(path.c_str());
  EXPECT_EQ(fb_session_init_weights(session, 1), FB_OK) << fb_error();
  fb_session_destroy(session);
  fb_program_close(program);
}

TEST(CApi, EveryMistakeIsAStatusWithWords) {
  fb_program *program = nullptr;
  EXPECT_EQ(fb_program_open(nullptr, &program), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: fb_program_open: null argument\nnote: only what runtime.h says may be null can be\n");
  EXPECT_EQ(fb_program_open("/none.so", nullptr), FB_INVALID_ARGUMENT);
  EXPECT_EQ(fb_program_open("/none.so", &program), FB_BAD_PROGRAM);
  EXPECT_EQ(std::string(fb_error()).find("error: /none.so: No such file or directory\n"), 0u) << fb_error();
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(fb_program_open((folder + "/isa.so").c_str(), &program), FB_BAD_PROGRAM);
  ASSERT_EQ(fb_program_open((folder + "/resident.so").c_str(), &program), FB_OK);

  fb_session *session = nullptr;
  fb_session_options options = forebay_test_options(nullptr, nullptr);
  options.size = 4;
  EXPECT_EQ(fb_session_create(program, &options, &session), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: fb_session_create: null argument, or options of another size\nnote: set `size` to sizeof(fb_session_options)\n");
  fb_tensor_info info;
  EXPECT_EQ(fb_program_tensor(program, 1000, &info), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: fb_program_tensor: no such tensor\nnote: count from 0 until FB_INVALID_ARGUMENT\n");
  const char *space;
  uint64_t spaceBytes;
  EXPECT_EQ(fb_program_space(program, 1000, &space, &spaceBytes), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: fb_program_space: no such space\nnote: count from 0 until FB_INVALID_ARGUMENT\n");
  options = forebay_test_options(nullptr, nullptr);
  options.lr_schedule = "steep";
  EXPECT_EQ(fb_session_create(program, &options, &session), FB_INVALID_ARGUMENT);
  EXPECT_NE(std::string(fb_error()).find("unknown schedule 'steep'"), std::string::npos);
  options.lr_schedule = nullptr;
  const char *hyper[] = {"beta1=1", nullptr};
  options.hyper = hyper;
  EXPECT_EQ(fb_session_create(program, &options, &session), FB_INVALID_ARGUMENT);
  EXPECT_NE(std::string(fb_error()).find("has no hyper-parameter 'beta1'"), std::string::npos) << fb_error();
  hyper[0] = "lr";
  EXPECT_EQ(fb_session_create(program, &options, &session), FB_INVALID_ARGUMENT);
  EXPECT_EQ(session, nullptr);
  ASSERT_EQ(fb_session_create(program, nullptr, &session), FB_OK) << fb_error();
  EXPECT_EQ(fb_session_load_weights(session, "/none"), FB_BAD_WEIGHTS);
  float value[8];
  EXPECT_EQ(fb_session_read(session, "nothing", value, 4), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: nothing: the program has no such tensor\nnote: fb_program_tensor lists them\n");
  EXPECT_EQ(fb_session_read(session, "layer.weight", value, 16), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: layer.weight: has 12 bytes, not 16\nnote: fb_program_tensor says the size\n");
  EXPECT_EQ(fb_session_read(session, "layer.weight", nullptr, 12), FB_INVALID_ARGUMENT);
  EXPECT_EQ(fb_session_read(nullptr, "layer.weight", value, 12), FB_INVALID_ARGUMENT);
  EXPECT_EQ(fb_session_save_weights(session, "/none/w"), FB_IO);
  EXPECT_STREQ(fb_error(), "error: /none/w: No such file or directory\nnote: choose a file that may be written\n");
  EXPECT_EQ(fb_session_run(nullptr, 1, nullptr, nullptr, nullptr), FB_INVALID_ARGUMENT);
  EXPECT_STREQ(fb_error(), "error: fb_session_run: null session\nnote: only what runtime.h says may be null can be\n");
  EXPECT_EQ(fb_session_run(session, 2, nullptr, nullptr, nullptr), FB_OK) << "without feeds, rows are zeros";
  fb_session_destroy(session);
  fb_session_destroy(nullptr);
  fb_program_close(program);
  fb_program_close(nullptr);
}

} // namespace
