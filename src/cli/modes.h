// Modes of files as chmod(1) writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

// A change of mode bits: an octal mode, or symbolic changes such as "u+x,g=rw".
class ModeChange {
 public:
  // Parses an octal mode of at most four digits, or clauses separated by commas: letters of u, g, o and a; then one or
  // more of: an operator +, - or =, with letters of r, w, x, X, s and t, or with one of u, g and o. Returns nothing for
  // anything else.
  static std::optional<ModeChange> Parse(std::string_view text);

  // Returns the new mode of a file that has `mode`. `umask` limits the clauses without u, g, o or a.
  uint32_t Apply(uint32_t mode, bool is_directory, uint32_t umask) const;

 private:
  struct Step {
    char operation = '=';
    uint32_t who = 0;     // all bits of the classes, with their special bit; zero: no class was named
    uint32_t bits = 0;    // for all classes
    char copied = 0;      // a class whose bits are used in place of `bits`
    bool if_any = false;  // X: x for directories and for files that somebody may execute
  };
  std::vector<Step> steps_;
};

// The message about a text that is not a mode.
std::string WrongMode(std::string_view text);

// Returns the umask of the process. It is of use only before other threads make files.
uint32_t ProcessUmask();

}  // namespace penstock::cli
