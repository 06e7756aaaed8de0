//===- Feeds.h - Data for a program's inputs --------------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_FEEDS_H
#define FOREBAY_RUNTIME_FEEDS_H

#include "Files.h"
#include "Npy.h"
#include "Problems.h"

namespace forebay::rt {

struct FeedOptions {
  std::vector<std::pair<std::string, std::string>> arrays; ///< input, .npy file
  bool repeat = false;
  std::string tokens;              ///< file of raw tokens, or empty
  std::string tokensType = "u16";
  std::string tokensInput, tokensLabels; ///< empty: input_ids and labels, where the program has them
  uint64_t tokensShift = 0;
  bool randomBatches = false;
  uint64_t seed = 0;
};

/// Where each input of a program gets its rows from; one row is what one micro-step reads.
class Feeds {
public:
  /// Opens and checks everything that does not depend on how long the run is.
  void bind(const Program &program, const FeedOptions &options, Problems &problems);
  /// Steps that the shortest array allows (token files count as well); 0 if there is no data at all.
  uint64_t stepsAvailable() const;
  /// What decides which row a micro-step gets, in words: a run that goes on should have the same.
  std::string describe() const;
  /// Why `stepsAvailable` is 0.
  void reportNoSteps(Problems &problems) const;
  /// Checks that `steps` steps from `first` have data with legal values.
  void check(uint64_t first, uint64_t steps, Problems &problems);
  /// Notices for the user (a token file that will wrap).
  std::vector<std::string> notices(uint64_t first, uint64_t steps) const;

  /// Writes the row of `micro` (from the start of the run's first step). Called while steps run: no allocation.
  void fill(uint32_t tensor, uint64_t micro, void *destination) const;

private:
  enum class Kind { None, Array, Tokens, Ones, Positions };
  struct Source {
    Kind kind = Kind::None;
    NpyArray array;
    std::string file;
    uint64_t rows = 0, shift = 0;
  };

  void bindArray(const std::string &input, const std::string &path, Problems &problems);
  void bindTokens(Problems &problems);
  std::string stepsText(uint64_t steps) const;
  int findInput(const std::string &name) const;
  uint64_t windowStart(uint64_t micro, uint64_t row) const;
  int64_t token(uint64_t index) const;
  void checkArray(const Tensor &tensor, const Source &source, uint64_t firstRow, uint64_t rows, Problems &problems) const;
  void checkTokens(const Tensor &tensor, const Source &source, uint64_t firstMicro, uint64_t micros, Problems &problems) const;

  const Program *program = nullptr;
  FeedOptions options;
  std::vector<Source> sources; ///< by tensor
  std::vector<MappedFile> files;
  MappedFile tokenFile;
  unsigned tokenBytes = 2;
  bool tokensSigned = false;
  uint64_t tokenCount = 0, windows = 0;
  uint64_t batch = 0, sequence = 0;
};

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_FEEDS_H
