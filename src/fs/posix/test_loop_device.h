// For tests: file systems in a regular file.
#pragma once

#include <cstdio>
#include <string>

namespace penstock::fs::posix {

// A block device over a file. Its name is empty if this process may not create one.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& image) : name_(Output("losetup --find --show " + image + " 2>/dev/null")) {}
  ~LoopDevice() {
    if (!name_.empty()) Output("losetup --detach " + name_);
  }
  const std::string& name() const { return name_; }

  static std::string Output(const std::string& command) {
    std::string output;
    FILE* const pipe = ::popen(command.c_str(), "r");
    for (int c; pipe && (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
    if (pipe && ::pclose(pipe) != 0) return "";
    while (output.ends_with('\n')) output.pop_back();
    return output;
  }

 private:
  const std::string name_;
};

// Makes a file system in a file. `kind` is one that mkfs knows, and `size` has the syntax of truncate. Returns false
// if that fails.
inline bool MakeFileSystem(const std::string& image, const std::string& kind, const std::string& size) {
  const std::string make = "truncate -s " + size + " " + image + " && mkfs." + kind + " -q " + image;
  return LoopDevice::Output(make + " >/dev/null 2>&1 && echo ok") == "ok";
}

}  // namespace penstock::fs::posix
