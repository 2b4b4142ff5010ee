// The lines of `penstock shell`: from a line to the words of a command of the program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/interface.h"

namespace penstock::cli {

// Splits a line at spaces. Quotes and backslashes keep characters together, as in sh(1). A word that begins with '#'
// begins a comment. The error says which quote does not end.
Result<std::vector<std::string>, std::string> SplitWords(std::string_view line);

// The place of a shell on a server.
class ShellPlace {
 public:
  // `url` is the URL that was given, and `path` its decoded path.
  ShellPlace(std::string_view url, std::string path);

  // The directory on the server, absolute.
  const std::string& path() const { return path_; }
  void ChangeTo(std::string path) { path_ = std::move(path); }
  std::string Absolute(std::string_view path) const;
  // The URL of a path that is absolute or begins at the directory. A URL stays as it is.
  std::string UrlOf(std::string_view path) const;

 private:
  std::string server_;   // nfs://host:port
  std::string options_;  // from '?' on, or empty
  std::string path_;
};

// Makes the words of a command line of the program: paths become URLs. `words` begin with a command, which `commands`
// describes. Returns nothing if it is not one that works on a server's files.
std::optional<std::vector<std::string>> ProgramWords(const std::vector<std::string>& words, const ShellPlace& place,
                                                     const std::vector<CommandFacts>& commands);

}  // namespace penstock::cli
