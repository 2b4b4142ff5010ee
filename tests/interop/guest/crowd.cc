// A folder with very many files f0, f1, ...: each name must be listed once, whatever else happens to the folder, and
// each file must have the size that follows from its number.
//
//     crowd list FOLDER COUNT [REMOVED]     every REMOVED-th file may be missing
//     crowd remove FOLDER COUNT REMOVED     removes every REMOVED-th file while it lists
//
// If no file is removed, the program checks each file. Otherwise it checks few: each check costs a request, because the
// client's knowledge of the folder's names is invalid.
#include <dirent.h>

#include <vector>

#include "check.h"

namespace guest {
namespace {

constexpr size_t kSample = 1009;

size_t NumberOf(const std::string& name, size_t count) {
  size_t end = 0;
  Check(name.starts_with('f'), "a name that nobody made: " + name);
  const size_t number = std::stoul(name.substr(1), &end);
  Check(end + 1 == name.size() && number < count, "a name that nobody made: " + name);
  return number;
}

int Run(const std::string& how, const std::string& folder, size_t count, size_t every) {
  const bool removes = how == "remove";
  DIR* const listing = opendir(folder.c_str());
  Check(listing, "opendir " + folder);
  std::vector<bool> seen(count);
  size_t gone = 0;
  errno = 0;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const size_t number = NumberOf(name, count);
    Check(!seen[number], name + " is listed twice");
    seen[number] = true;
    const bool may_go = every && number % every == 0;
    if (!every || (!may_go && number % kSample == 0)) {
      struct stat status;
      Check(fstatat(dirfd(listing), name.c_str(), &status, 0) == 0, "stat " + name);
      Check(size_t(status.st_size) == number % 5, "the size of " + name);
    }
    if (removes && may_go) {
      Check(unlinkat(dirfd(listing), name.c_str(), 0) == 0, "remove " + name);
      ++gone;
    }
    errno = 0;
  }
  Check(errno == 0, "readdir");
  Check(closedir(listing) == 0, "closedir");

  size_t missing = 0;
  for (size_t number = 0; number < count; ++number) {
    if (seen[number]) continue;
    Check(every && number % every == 0, "f" + std::to_string(number) + " is not listed");
    ++missing;
  }
  std::printf("%s %s: %zu listed, %zu missing, %zu removed\n", how.c_str(), folder.c_str(), count - missing, missing,
              gone);
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) {
  if (count < 4) return 2;
  return guest::Run(arguments[1], arguments[2], std::stoul(arguments[3]), count > 4 ? std::stoul(arguments[4]) : 0);
}
