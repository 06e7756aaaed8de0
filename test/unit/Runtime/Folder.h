//===- Folder.h - A temporary folder for a test -----------------*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_RUNTIME_FOLDER_H
#define FOREBAY_TEST_UNIT_RUNTIME_FOLDER_H

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace forebay::testing {

/// A folder that goes away with the test.
class Folder {
public:
  Folder() {
    char name[] = "/tmp/forebay-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() {
    if (std::system(("rm -r '" + path + "'").c_str()) != 0)
      ADD_FAILURE() << "cannot remove " << path;
  }
  std::string file(const std::string &name, const std::string &content) const {
    std::ofstream(path + "/" + name, std::ios::binary) << content;
    return path + "/" + name;
  }
  std::string path;
};

} // namespace forebay::testing

#endif // FOREBAY_TEST_UNIT_RUNTIME_FOLDER_H
