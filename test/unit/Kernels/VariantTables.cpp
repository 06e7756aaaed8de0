//===- VariantTables.cpp - Other builds of the kernels --------------------===//

#include "Harness.h"

namespace forebay::kernels {

namespace unoptimized {
extern const KernelEntry table[];
}
#ifdef HAVE_GCC_BUILD
namespace gcc {
extern const KernelEntry table[];
}
#endif

std::vector<const char *> otherBuilds() {
  return {
      "unoptimized",
#ifdef HAVE_GCC_BUILD
      "gcc",
#endif
  };
}

const KernelEntry *lookupOtherBuild(std::string_view name, std::string_view build) {
  const KernelEntry *entry = unoptimized::table;
#ifdef HAVE_GCC_BUILD
  if (build == "gcc")
    entry = gcc::table;
#endif
  for (; entry->name; ++entry)
    if (name == entry->name)
      return entry;
  return nullptr;
}

} // namespace forebay::kernels
