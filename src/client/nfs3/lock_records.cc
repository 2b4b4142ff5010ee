#include "client/nfs3/lock_records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/state_directory.h"
#include "base/texts.h"

namespace penstock::client::v3 {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kBeginning = "penstock-locks 1 ";
// More is no file of ours.
constexpr off_t kLargest = 16 << 20;
constexpr size_t kLongestHandle = 64;  // RFC 1813 §2.4
// Lines of removed records are left in the file up to here.
constexpr size_t kMostLines = 1024;

std::string HeadFor(std::string_view server) { return fmt::format("{}{}\n", kBeginning, server); }

std::string LineOf(char sign, const LockRecord& record) {
  return fmt::format("{} {} {}\n", sign, record.owner, Hexadecimal(record.file));
}

std::optional<LockRecord> RecordIn(std::string_view line) {
  LockRecord record;
  const char* const end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, record.owner);
  if (error != std::errc() || after == end || *after != ' ' || (end - after) % 2 == 0) return std::nullopt;
  if (static_cast<size_t>(end - after) / 2 > kLongestHandle) return std::nullopt;
  record.file.resize(static_cast<size_t>(end - after) / 2);
  if (!FromHexadecimal({after + 1, end}, record.file)) return std::nullopt;
  return record;
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::optional<std::string> ReadAll(int file, off_t size) {
  std::string content(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::pread(file, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    done += static_cast<size_t>(got);
  }
  return content;
}

}  // namespace

std::optional<std::vector<LockRecord>> ParseLockRecords(std::string_view content, std::string_view server) {
  if (const std::string head = HeadFor(server); content.starts_with(head)) {
    content.remove_prefix(head.size());
  } else {
    return std::nullopt;
  }
  std::set<LockRecord> records;
  for (size_t end = content.find('\n'); end != content.npos; end = content.find('\n')) {
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end + 1);
    const bool adds = line.starts_with("+ ");
    if (!adds && !line.starts_with("- ")) return std::nullopt;
    auto record = RecordIn(line.substr(2));
    if (!record) return std::nullopt;
    if (adds) {
      records.insert(*std::move(record));
    } else {
      records.erase(*record);
    }
  }
  return std::vector<LockRecord>(records.begin(), records.end());
}

// ---- of a live mount ----

LockRecords::LockRecords(stdfs::path directory, std::string server, std::string client)
    : directory_(std::move(directory)), server_(std::move(server)), client_(std::move(client)), file_(-1) {}

SetupResult<void> LockRecords::Add(LockRecord record) {
  const auto [added, is_new] = records_.insert(std::move(record));
  if (!is_new) return {};
  if (!file_ || lines_ > kMostLines + 2 * records_.size()) return Replace();
  return Write('+', *added);
}

SetupResult<void> LockRecords::Remove(const LockRecord& record) {
  if (records_.erase(record) == 0 || !file_) return {};
  if (!records_.empty()) return Write('-', record);
  const stdfs::path path = directory_ / client_;
  // Before its lock ends: another mount would take it for that of a dead one.
  const int error = ::unlink(path.c_str()) != 0 && errno != ENOENT ? errno : 0;
  file_ = FileDescriptor(-1);
  if (error != 0) return std::unexpected(StateFileError("remove", path, error));
  return {};
}

// The file that others find is locked and complete.
SetupResult<void> LockRecords::Replace() {
  const stdfs::path path = directory_ / client_;
  const stdfs::path made = directory_ / ("." + client_ + ".new");
  std::error_code error;
  stdfs::create_directories(directory_, error);
  FileDescriptor file(::open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::unexpected(StateFileError("make", made, errno));
  std::string content = HeadFor(server_);
  for (const LockRecord& each : records_) content += LineOf('+', each);
  int failure = WriteAll(file.get(), content) ? 0 : errno;
  if (failure == 0 && ::rename(made.c_str(), path.c_str()) != 0) failure = errno;
  if (failure != 0) {
    ::unlink(made.c_str());
    return std::unexpected(StateFileError("write", path, failure));
  }
  file_ = std::move(file);
  lines_ = records_.size();
  is_damaged_ = false;
  return {};
}

// A full disk may take a part of a line. What follows it would be lost, so all records go into another file as soon as
// there is room.
SetupResult<void> LockRecords::Write(char sign, const LockRecord& record) {
  if (is_damaged_) return Replace();
  ++lines_;
  is_damaged_ = !WriteAll(file_.get(), LineOf(sign, record));
  if (!is_damaged_) return {};
  return std::unexpected(StateFileError("write", directory_ / client_, errno));
}

// ---- of dead mounts ----

void LeftLocks::Forget() const { ::unlink(path.c_str()); }

std::vector<LeftLocks> FindLeftLocks(const stdfs::path& directory, std::string_view server) {
  std::vector<LeftLocks> all;
  std::error_code error;
  for (stdfs::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    std::string client = each->path().filename();
    if (client.starts_with('.')) continue;
    FileDescriptor file(::open(each->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    struct stat status{};
    // A file without a name was forgotten by another process just now.
    if (::fstat(file.get(), &status) != 0 || status.st_nlink == 0) continue;
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || status.st_size > kLargest) continue;
    const auto content = ReadAll(file.get(), status.st_size);
    if (!content) continue;
    auto records = ParseLockRecords(*content, server);
    if (!records) continue;
    all.push_back({std::move(client), *std::move(records), each->path(), std::move(file)});
  }
  return all;
}

}  // namespace penstock::client::v3
