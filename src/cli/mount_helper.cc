#include "cli/mount_helper.h"

namespace penstock::cli {

bool IsMountHelper(const std::string& program) { return program.substr(program.rfind('/') + 1) == "mount.penstock"; }

std::vector<std::string> WithoutMountHelper(const std::vector<std::string>& words) {
  std::vector<std::string> translated = {"penstock", "mount"};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_flags = word.size() > 1 && word[0] == '-' && word[1] != '-';
    if (!is_flags || word.starts_with("-o") || word.starts_with("-t")) {
      // mount(8) names the type, which is known.
      if (word == "-t") ++i;
      if (!word.starts_with("-t")) translated.push_back(word);
      continue;
    }
    for (const char flag : word.substr(1)) {
      if (flag == 'f') translated.emplace_back("--fake");
      if (flag == 'v') translated.emplace_back("-v");
      if (flag == 'r') translated.insert(translated.end(), {"-o", "ro"});
      // The others concern what this program does not do: -n writes no /etc/mtab, -s accepts unknown options of other
      // systems, and -w is the default.
      if (flag != 'f' && flag != 'v' && flag != 'r' && flag != 'n' && flag != 's' && flag != 'w') {
        translated.push_back(std::string("-") + flag);
      }
    }
  }
  return translated;
}

}  // namespace penstock::cli
