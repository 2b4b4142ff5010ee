// A worker: repeats an application's operations in its own folder, knows the expected contents, and fails at the first
// error or wrong octet. SIGTERM ends it successfully; it then writes the expected contents to another place.
//
//     load FOLDER MODEL SEED
//
// A killed server may have executed a request without replying. After the retry, "make" then finds the name made, and
// "remove" finds it gone: only a persistent session whose reply was kept in time prevents that. The worker accepts such
// a result if it is exact, and counts it: with one request under way, there is at most one for each kill.
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "check.h"

namespace guest {
namespace {

constexpr size_t kMaxFiles = 24;
constexpr size_t kMaxSize = 200'000;
constexpr off_t kLockStart = 1'000'000;
constexpr off_t kLockLength = off_t{1} << 40;

volatile sig_atomic_t ending = 0;

class Worker {
 public:
  Worker(const std::string& folder, uint64_t seed)
      : folder_(folder),
        name_(folder.substr(folder.rfind('/') + 1)),
        random_(seed),
        locked_(folder + ".lock", O_RDWR | O_CREAT | O_EXCL) {
    Check(mkdir(folder.c_str(), 0755) == 0, "mkdir " + folder);
    Check(locked_.Lock(F_SETLK, F_WRLCK, kLockStart, kLockLength) == 0, "lock " + name_);
  }

  void Round() {
    for (int each = 0; each < 8; ++each) Step();
    Count();
    std::printf("round %llu of %s\n", static_cast<unsigned long long>(count_), name_.c_str());
  }

  // The expected contents, for others to compare; and the number of operations that had been executed already.
  void Finish(const std::string& model) {
    CheckNames();
    for (const auto& [name, data] : files_) {
      ReadBack(name);
      File(model + "/" + name, O_WRONLY | O_CREAT | O_EXCL).Append(data);
    }
    std::printf("finished %s: %llu rounds, already done %d\n", name_.c_str(), static_cast<unsigned long long>(count_),
                again_);
  }

 private:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // A new name: an object with this name was made by us.
  std::string NewName() { return name_ + "." + std::to_string(++names_); }

  std::map<std::string, std::string>::iterator Any() {
    return std::next(files_.begin(), long(random_.Below(files_.size())));
  }

  void Step() {
    const bool full = files_.size() >= kMaxFiles;
    if (files_.size() < 4) return Create();
    switch (random_.Below(10)) {
      case 0:
      case 1:
        return full ? Remove() : Create();
      case 2:
        return Rewrite();
      case 3:
        return Extend();
      case 4:
        return Truncate();
      case 5:
        return Rename(NewName());
      case 6:
        return Rename(Any()->first);
      case 7:
        return full ? Remove() : Link();
      case 8:
        return Folders();
      default:
        return ReadBack(Any()->first);
    }
  }

  // Calls `done` if `result` means that the operation had been executed already.
  void Once(int result, int expected, const std::string& what, auto done) {
    if (result == 0) return;
    const int error = errno;
    if (error == expected && done()) {
      std::printf("%s: %s was done already\n", name_.c_str(), what.c_str());
      ++again_;
      return;
    }
    errno = error;
    Fail(name_ + ": " + what);
  }

  // Asks the server: the client caches for a while that a name does not exist.
  static std::optional<struct stat> StatusOf(const std::string& path) {
    struct statx unused;
    const std::string folder = path.substr(0, path.rfind('/'));
    Check(statx(AT_FDCWD, folder.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &unused) == 0, "statx " + folder);
    struct stat status;
    if (lstat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
  }
  static ino_t Inode(const std::string& path) {
    const auto status = StatusOf(path);
    return status ? status->st_ino : 0;
  }

  void Create() {
    const std::string name = NewName();
    const int made = open(Path(name).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (made >= 0) Check(close(made) == 0, "close " + name);
    Once(made < 0 ? -1 : 0, EEXIST, "create " + name, [&] {
      const auto status = StatusOf(Path(name));
      return status && S_ISREG(status->st_mode) && status->st_size == 0;
    });
    std::string& data = files_[name];
    File file(Path(name), O_RDWR);
    while (data.size() < kMaxSize && random_.Below(4)) {
      const std::string more = random_.Octets(random_.Below(kMaxSize / 4));
      file.Write(more, off_t(data.size()));
      data += more;
    }
    if (random_.Below(2)) file.Sync();
  }

  void Rewrite() {
    auto& [name, data] = *Any();
    if (data.empty()) return;
    File file(Path(name), O_RDWR);
    const size_t at = random_.Below(data.size());
    const std::string more = random_.Octets(random_.Below(data.size() - at) + 1);
    file.Write(more, off_t(at));
    data.replace(at, more.size(), more);
    if (random_.Below(2)) Same(name, file.ReadAll(), data);
  }

  void Extend() {
    auto& [name, data] = *Any();
    if (data.size() >= kMaxSize) return Truncate();
    const std::string more = random_.Octets(random_.Below(5000));
    File(Path(name), O_WRONLY | O_APPEND).Append(more);
    data += more;
  }

  void Truncate() {
    auto& [name, data] = *Any();
    const size_t size = random_.Below(kMaxSize);
    Check(truncate(Path(name).c_str(), off_t(size)) == 0, "truncate " + name);
    data.resize(size);
  }

  // Renames a file to a new name, or over another file.
  void Rename(const std::string& to) {
    const std::string from = Any()->first;
    if (from == to) return;
    const ino_t inode = Inode(Path(from));
    Once(rename(Path(from).c_str(), Path(to).c_str()), ENOENT, "rename " + from + " to " + to,
         [&] { return Inode(Path(from)) == 0 && Inode(Path(to)) == inode; });
    files_[to] = std::move(files_[from]);
    files_.erase(from);
  }

  void Remove() {
    const std::string name = Any()->first;
    Once(unlink(Path(name).c_str()), ENOENT, "unlink " + name, [&] { return Inode(Path(name)) == 0; });
    files_.erase(name);
  }

  // Links a second name to a file, checks its contents, and removes the first name.
  void Link() {
    const std::string from = Any()->first;
    const std::string to = NewName();
    const ino_t inode = Inode(Path(from));
    Once(link(Path(from).c_str(), Path(to).c_str()), EEXIST, "link " + to, [&] { return Inode(Path(to)) == inode; });
    Once(unlink(Path(from).c_str()), ENOENT, "unlink " + from, [&] { return Inode(Path(from)) == 0; });
    files_[to] = std::move(files_[from]);
    files_.erase(from);
  }

  // Makes a folder, moves a file into it and out again, and removes the folder.
  void Folders() {
    const std::string folder = NewName();
    const std::string file = Any()->first;
    const std::string within = folder + "/" + NewName();
    const ino_t inode = Inode(Path(file));
    const auto move = [&](const std::string& from, const std::string& to) {
      Once(rename(Path(from).c_str(), Path(to).c_str()), ENOENT, "move " + from + " to " + to,
           [&] { return Inode(Path(from)) == 0 && Inode(Path(to)) == inode; });
    };
    Once(mkdir(Path(folder).c_str(), 0755), EEXIST, "mkdir " + folder, [&] {
      const auto status = StatusOf(Path(folder));
      return status && S_ISDIR(status->st_mode);
    });
    move(file, within);
    move(within, file);
    Once(rmdir(Path(folder).c_str()), ENOENT, "rmdir " + folder, [&] { return Inode(Path(folder)) == 0; });
  }

  void ReadBack(const std::string& name) { Same(name, File(Path(name), O_RDONLY).ReadAll(), files_[name]); }

  void Same(const std::string& name, const std::string& got, const std::string& wanted) const {
    if (got == wanted) return;
    size_t at = 0;
    while (at < got.size() && at < wanted.size() && got[at] == wanted[at]) ++at;
    Fail(name + ": " + std::to_string(got.size()) + " octets, wanted " + std::to_string(wanted.size()) +
         ", different from " + std::to_string(at) + " on");
  }

  // Updates a counter in the file that this worker has locked, through the open with the lock. If the lock was lost,
  // Linux answers EIO from then on, so the worker fails here.
  void Count() {
    uint64_t found = 0;
    Check(posix_fadvise(locked_.fd(), 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise " + name_);
    Check(count_ == 0 || pread(locked_.fd(), &found, sizeof(found), 0) == ssize_t(sizeof(found)),
          "read the counter of " + name_);
    Check(found == count_, name_ + ": the counter is " + std::to_string(found) + ", not " + std::to_string(count_));
    ++count_;
    Check(pwrite(locked_.fd(), &count_, sizeof(count_), 0) == ssize_t(sizeof(count_)), "write the counter of " + name_);
    locked_.Sync();
  }

  // Checks that the folder has exactly the expected names.
  void CheckNames() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) found.insert(entry.path().filename());
    std::set<std::string> wanted;
    for (const auto& [name, data] : files_) wanted.insert(name);
    Check(found == wanted, name_ + ": the names in the folder are not those that were made");
  }

  std::string folder_;
  std::string name_;
  Random random_;
  File locked_;
  std::map<std::string, std::string> files_;
  uint64_t names_ = 0;
  uint64_t count_ = 0;
  int again_ = 0;
};

int Run(const std::string& folder, const std::string& model, uint64_t seed) {
  struct sigaction action = {};
  action.sa_handler = [](int) { ending = 1; };
  sigaction(SIGTERM, &action, nullptr);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Worker worker(folder, seed);
  while (!ending) worker.Round();
  worker.Finish(model);
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) {
  if (count != 4) return 2;
  return guest::Run(arguments[1], arguments[2], std::stoull(arguments[3]));
}
