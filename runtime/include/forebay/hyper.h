//===- hyper.h - What hyper-parameters may be set to ------------*- C++ -*-===//
///
/// \file
/// `--hyper=KEY=VALUE` has the same rules and words in forebay-compile and forebay-run. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_HYPER_H
#define FOREBAY_HYPER_H

#include "forebay/program.h"

namespace forebay {

/// What is wrong, and what would work.
struct HyperError {
  std::string what, note;
};

/// A finite decimal number; nothing before or after it but a sign.
bool parseNumber(std::string_view text, double &value);

/// Reads KEY=VALUE for an optimizer with the hyper-parameters `known`. `group`: `lr_scale` is a key, too. Booleans become 0 and 1. Names that
/// PyTorch's optimizers use have PyTorch's ranges; other names of a user's own optimizer are free. `key` points into `text`.
bool readHyper(std::string_view optimizer, const std::vector<HyperDefault> &known, bool group, std::string_view text, std::string_view &key,
               double &value, HyperError &error);

/// Values that do not go together; `values` has the order of `known`.
bool checkHyper(const std::vector<HyperDefault> &known, const std::vector<double> &values, HyperError &error);

} // namespace forebay

#endif // FOREBAY_HYPER_H
