// A tar archive in memory, as a tree of nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/penstock.h>

namespace archive_server {

// A file, a directory or another object of the archive. Nodes refer to each other by their index in Archive::nodes().
struct Node {
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  std::string content;  // of a regular file
  std::string target;   // of a symbolic link
  // The following are for directories.
  size_t parent = 0;
  std::map<std::string, size_t, std::less<>> entries{};
};

class Archive {
 public:
  static constexpr size_t kRoot = 0;

  // Reads a whole archive, compressed in any way that libarchive knows. Throws std::runtime_error with one line for the
  // user: the file cannot be read, it is no tar archive, or the archive is damaged.
  static Archive Read(const std::string& path);

  // The first node is the root directory.
  const std::vector<Node>& nodes() const { return nodes_; }
  // Differs between archives that differ in a name, an attribute or the content of a file.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  class Reader;
  Archive() = default;

  std::vector<Node> nodes_;
  uint64_t fingerprint_ = 0xcbf29ce484222325;
};

}  // namespace archive_server
