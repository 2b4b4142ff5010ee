// Patterns that choose the files of a copy, like those of rsync.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::copying {

// Whether `text` matches a pattern: "*" stands for any octets but "/", "**" for any octets, "?" for one octet but "/",
// "[a-z]" and "[!a-z]" for one octet of a set; "\" quotes the next octet.
bool Matches(std::string_view pattern, std::string_view text);
// Whether the text has one of the special octets of a pattern.
bool IsPattern(std::string_view text);

// The rules of --include and --exclude, in their order. The first rule that matches decides; without one the file is
// copied. What is below an excluded directory is excluded, too.
//
// A pattern with "/" at its end matches directories only. A pattern with another "/" matches the path below the tree;
// otherwise it matches the last component of the path.
class Filter {
 public:
  void Add(bool includes, std::string pattern);
  bool empty() const { return rules_.empty(); }
  // `path` is below the tree, without "/" at its beginning.
  bool Includes(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    bool includes = false;
    bool directories_only = false;
    bool whole_path = false;
    std::string pattern{};
  };
  std::vector<Rule> rules_;
};

}  // namespace penstock::copying
