#include "fs/audited/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/texts.h"
#include "base/thread.h"

namespace penstock::fs::audited {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kBetweenWrites = std::chrono::minutes(1);

penstock::Result<FileDescriptor, int> OpenFile(const std::string& name) {
  FileDescriptor file(::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
  if (!file) return std::unexpected(errno);
  return file;
}

int64_t Microseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// The path of a place; only its name, without a slash, if the path of its directory is unknown; or nothing.
std::string PathOf(FileSystem* files, const Place& place) {
  std::string path = files ? files->PathOf(place.at) : std::string();
  if (place.name.empty()) return path;
  if (path.empty()) return place.name;
  return path == "/" ? path + place.name : fmt::format("{}/{}", path, place.name);
}

std::string ToLine(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

SetupResult<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& file, const Limits& limits) {
  auto opened = OpenFile(file);
  if (!opened) return std::unexpected(SetupError{fmt::format("--audit {}: {}", file, DescribeErrno(opened.error()))});
  return std::unique_ptr<AuditLog>(new AuditLog(file, *std::move(opened), limits));
}

AuditLog::AuditLog(std::string name, FileDescriptor file, const Limits& limits)
    : name_(std::move(name)),
      limits_(limits),
      file_(std::move(file)),
      thread_(StartThread("penstock-audit", [this] { Run(); })) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AuditLog::Know(uint64_t connection, const IpAddress& client) {
  const std::lock_guard lock(clients_mutex_);
  if (clients_.contains(connection)) return;
  // Numbers of connections rise. A connection that is older, but lives, is known again by its next call.
  while (clients_.size() >= limits_.connections) clients_.erase(clients_.begin());
  clients_.emplace(connection, Unmapped(client));
}

bool AuditLog::IsFirstWrite(const ClientKey& client, std::string_view writer, const Handle& file, bool succeeded,
                            TimePoint now) {
  std::string key(AsText(file.bytes()));
  key += fmt::format(" {:x} {}{}", client.host, writer, succeeded ? "" : " failed");
  const std::lock_guard lock(clients_mutex_);
  if (const auto known = writes_.find(key); known != writes_.end() && now - known->second < kBetweenWrites)
    return false;
  if (writes_.size() >= limits_.files) {
    std::erase_if(writes_, [&](const auto& each) { return now - each.second >= kBetweenWrites; });
    // Then the writes to some files have two records in a minute.
    if (writes_.size() >= limits_.files) writes_.clear();
  }
  writes_[std::move(key)] = now;
  return true;
}

void AuditLog::Add(Record record) {
  Queued queued{.time = Microseconds(), .record = std::move(record)};
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() < limits_.queue) {
      queue_.push_back(std::move(queued));
    } else {
      lost_.fetch_add(1);
    }
  }
  changed_.notify_one();
}

void AuditLog::Reopen() {
  {
    const std::lock_guard lock(mutex_);
    reopens_ = true;
  }
  changed_.notify_one();
}

bool AuditLog::Finish(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return queue_.empty() && !is_writing_; });
}

void AuditLog::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || reopens_ || ends_; });
    if (std::exchange(reopens_, false)) {
      lock.unlock();
      OpenAgain();
      lock.lock();
      continue;
    }
    if (queue_.empty()) break;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    is_writing_ = true;
    lock.unlock();
    Write(next);
    lock.lock();
    is_writing_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
  lock.unlock();
  if (lost_ == told_lost_) return;
  if (const auto told = TellLost(); !told) Complain(DescribeErrno(told.error()));
}

void AuditLog::OpenAgain() {
  auto opened = OpenFile(name_);
  if (opened) {
    file_ = *std::move(opened);
  } else {
    log::error("the audit log {} cannot be opened again ({}): the file before is used", name_,
               DescribeErrno(opened.error()));
  }
}

std::string AuditLog::AddressOf(const Record& record) {
  if (!record.address.empty()) return record.address;
  const std::lock_guard lock(clients_mutex_);
  const auto known = clients_.find(record.client.connection);
  return known == clients_.end() ? std::string() : known->second.to_string();
}

void AuditLog::Write(const Queued& queued) {
  const Record& record = queued.record;
  Json line{{"time", UtcText(queued.time)}, {"client", AddressOf(record)}, {"uid", record.uid}, {"gid", record.gid}};
  if (!record.export_path.empty()) line["export"] = record.export_path;
  line["operation"] = record.operation;
  {
    const std::shared_ptr<FileSystem> files = record.files.lock();
    const std::string path = record.object ? PathOf(files.get(), *record.object) : record.path;
    if (!path.empty()) line["path"] = path;
    if (record.to) {
      if (const std::string to = PathOf(files.get(), *record.to); !to.empty()) line["to"] = to;
    }
  }
  if (!record.access.empty()) line["access"] = record.access;
  line["result"] = record.result;
  // A queue that was full has lost some, or the disk has.
  penstock::Result<void, int> written;
  if (lost_ > told_lost_) written = TellLost();
  if (written) written = WriteLine(ToLine(line));
  if (written) return;
  lost_.fetch_add(1);
  Complain(DescribeErrno(written.error()));
}

penstock::Result<void, int> AuditLog::TellLost() {
  const uint64_t lost = lost_;
  const Json line{{"time", UtcText(Microseconds())}, {"lost", lost - told_lost_}};
  PENSTOCK_CHECK(WriteLine(ToLine(line)));
  told_lost_ = lost;
  Complain("the disk was too slow, or full");
  return {};
}

penstock::Result<void, int> AuditLog::WriteLine(const std::string& line) {
  struct stat before{};
  const bool is_regular = ::fstat(file_.get(), &before) == 0 && S_ISREG(before.st_mode);
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(file_.get(), line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : ENOSPC;
      // A part of a line would spoil the next one.
      if (done > 0 && (!is_regular || ::ftruncate(file_.get(), before.st_size) != 0)) {
        const char end = '\n';
        [[maybe_unused]] const ssize_t ended = ::write(file_.get(), &end, 1);
      }
      return std::unexpected(error);
    }
    done += static_cast<size_t>(count);
  }
  return {};
}

void AuditLog::Complain(std::string_view why) {
  if (!complaints_.Allows(std::chrono::steady_clock::now())) return;
  log::error("the audit log {} loses records ({} so far): {}", name_, lost_.load(), why);
}

}  // namespace penstock::fs::audited
