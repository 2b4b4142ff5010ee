// Measures the tables of NFSv4's state at different sizes: what one operation takes, what one item takes, and the
// longest time that one addition took. All times are those of the processor.
//
//     state_bench [LARGEST]      the most items of each kind; the default is a million
//
// Writes JSON. There is no network and no disk.
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "state_parts.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kOperations = 100'000;
constexpr size_t kLeast = 1000;
// Limits that stop nothing here.
constexpr size_t kNoLimit = size_t{1} << 30;
constexpr Files::Limits kLimits{.states = kNoLimit,
                                .states_per_client = kNoLimit,
                                .owners = kNoLimit,
                                .owners_per_client = kNoLimit,
                                .ranges = kNoLimit,
                                .ranges_per_client = kNoLimit,
                                .delegations = kNoLimit};

size_t OctetsInUse() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// One kind of state.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void Add(size_t number) = 0;
  // Executes one operation with a table of `count` items, which has the same items afterwards.
  virtual void Operate(size_t count, uint64_t random) = 0;
};

// Opens files, locks ranges and closes files, as one client or as many.
class FilesSubject : public Subject {
 public:
  FilesSubject() : files_(std::make_unique<Files>(0x01020304, SipKey{1, 2}, kLimits)) {}

 protected:
  static NamedFile FileOf(size_t number) { return FileNamed(fmt::format("file {}", number)); }
  nfs4::stateid4 Open(size_t owner, const NamedFile& file) {
    OpenOwner* const opener =
        files_->owners.GetOpenOwner(ClientId{owner + 1}, AsBytes(std::string_view("owner")), kNow);
    Require(opener != nullptr, "no room for an owner");
    opener->confirmed = true;
    const auto opened =
        files_->opens.AddOpen(*opener, file, Share{nfs4::OPEN4_SHARE_ACCESS_BOTH, 0}, pin_, DialectOf(1), kNow);
    Require(opened.status == nfs4::NFS4_OK, "OPEN failed");
    return opened.stateid;
  }
  OpenState& OpenOf(const nfs4::stateid4& id, const NamedFile& file) {
    const auto found = files_->Find<OpenState>(Presenter{DialectOf(1), std::nullopt}, id, file.handle);
    Require(found.has_value(), "the stateid is not known");
    return **found;
  }
  void Close(const nfs4::stateid4& id, const NamedFile& file) {
    files_->opens.Close(OpenOf(id, file), DialectOf(1), kNow);
  }
  LockState& Lock(OpenState& open, const std::string& owner, uint64_t octet) {
    const auto locked =
        files_->locks.Lock(open, AsBytes(owner), {.range = {octet, octet}, .exclusive = true}, DialectOf(1), kNow);
    Require(locked.status == nfs4::NFS4_OK, "LOCK failed");
    const auto found = files_->Find<LockState>(Presenter{DialectOf(1), std::nullopt}, locked.stateid, open.handle);
    Require(found.has_value(), "the stateid is not known");
    return **found;
  }
  void Unlock(LockState& locks, uint64_t octet) {
    Require(files_->locks.Unlock(locks, {octet, octet}, DialectOf(1), kNow) == nfs4::NFS4_OK, "LOCKU failed");
  }

  std::shared_ptr<int> pin_ = std::make_shared<int>(0);
  std::unique_ptr<Files> files_;
};

// Each file is open once. The operation opens another file and closes it.
class OpensOfFiles : public FilesSubject {
 public:
  void Add(size_t number) override { Open(number % kClients, FileOf(number)); }
  void Operate(size_t count, uint64_t random) override {
    const NamedFile file = FileOf(count + random % 1000);
    Close(Open(random % kClients, file), file);
  }

 private:
  static constexpr size_t kClients = 16;
};

// One file is open by many clients. The operation opens it for another one, and closes it.
class OpensOfOneFile : public FilesSubject {
 public:
  void Add(size_t number) override { Open(number, file_); }
  void Operate(size_t count, uint64_t random) override { Close(Open(count + random % 1000, file_), file_); }

 private:
  const NamedFile file_ = FileOf(0);
};

// One owner has locked many ranges of a file. The operation locks another one, between two of them, and unlocks it.
class RangesOfOneOwner : public FilesSubject {
 public:
  void Add(size_t number) override {
    if (!open_) open_ = &OpenOf(Open(0, file_), file_);
    Lock(*open_, "owner", 4 * number);
  }
  void Operate(size_t count, uint64_t random) override {
    const uint64_t octet = 4 * (random % count) + 2;
    Unlock(Lock(*open_, "owner", octet), octet);
  }

 private:
  const NamedFile file_ = FileOf(0);
  OpenState* open_ = nullptr;
};

// Many owners have locked a range each, of the same file. The operation tests a range that another owner has, and locks
// and unlocks one as the owner of a random range.
class RangesOfManyOwners : public FilesSubject {
 public:
  void Add(size_t number) override {
    if (!open_) open_ = &OpenOf(Open(0, file_), file_);
    Lock(*open_, NameOf(number), 4 * number);
  }
  void Operate(size_t count, uint64_t random) override {
    const size_t owner = random % count;
    const auto conflict = files_->locks.TestLock(file_, ClientId{1}, AsBytes(NameOf(owner)),
                                                 {4 * ((owner + 1) % count), 4 * ((owner + 1) % count)}, true);
    Require(conflict.has_value() == (count > 1), "LOCKT is wrong");
    const uint64_t octet = 4 * owner + 2;
    Unlock(Lock(*open_, NameOf(owner), octet), octet);
  }

 private:
  static std::string NameOf(size_t number) { return fmt::format("owner {}", number); }

  const NamedFile file_ = FileOf(0);
  OpenState* open_ = nullptr;
};

// Clients with a session each. The operation is SEQUENCE of a random one, which renews its lease.
class ClientsWithSessions : public Subject {
 public:
  ClientsWithSessions() {
    settings_.max_clients = UINT32_MAX;
    settings_.max_total_slots = UINT32_MAX;
    tables_ = std::make_unique<StateTables>(StateTables::Beginning{.settings = settings_, .instance = 0x65000000});
  }
  void Add(size_t number) override {
    sessions_.push_back({AddClientWithSession(*tables_, number + 1, connection_).session, 0});
  }
  void Operate(size_t count, uint64_t random) override {
    auto& [session, sequence] = sessions_[random % count];
    const auto started = tables_->sessions.StartRequest({.sa_sessionid = session,
                                                         .sa_sequenceid = ++sequence,
                                                         .sa_slotid = 0,
                                                         .sa_highest_slotid = 0,
                                                         .sa_cachethis = false},
                                                        {.size = 200, .operations = 2}, connection_, kNow);
    Require(started.has_value(), "SEQUENCE failed");
    tables_->sessions.FinishRequest(session, SlotId(0), SequenceId(sequence), {}, kNow);
  }

 private:
  struct Known {
    SessionId session;
    uint32_t sequence;
  };
  Settings settings_;
  std::unique_ptr<StateTables> tables_;
  const SessionConnection connection_{.number = 1};
  std::vector<Known> sessions_;
};

struct Point {
  size_t items;
  double ns;          // one operation
  double octets;      // one item
  double longest_us;  // the slowest of the additions since the last point
};

std::vector<Point> Measure(Subject& subject, size_t largest) {
  std::vector<Point> points;
  std::mt19937_64 random(1);
  const size_t before = OctetsInUse();
  size_t items = 0;
  for (size_t next = kLeast; next <= largest; next *= 10) {
    double longest = 0;
    for (; items < next; ++items) {
      const double began = ProcessorTime();
      subject.Add(items);
      longest = std::max(longest, ProcessorTime() - began);
    }
    const double octets = static_cast<double>(OctetsInUse() - before) / static_cast<double>(items);
    const double began = ProcessorTime();
    for (size_t i = 0; i < kOperations; ++i) subject.Operate(items, random());
    points.push_back({items, (ProcessorTime() - began) / kOperations, octets, longest / 1000});
  }
  return points;
}

void Run(size_t largest) {
  auto report = [&, separator = ""](std::string_view name, Subject&& subject) mutable {
    fmt::print("{}\n  \"{}\": [", separator, name);
    separator = ",";
    const char* between = "";
    for (const Point& each : Measure(subject, largest)) {
      fmt::print("{}\n    {{\"items\": {}, \"ns\": {:.1f}, \"octets\": {:.1f}, \"longest_us\": {:.1f}}}", between,
                 each.items, each.ns, each.octets, each.longest_us);
      between = ",";
    }
    fmt::print("\n  ]");
    std::fflush(stdout);
  };
  fmt::print("{{");
  report("opens of as many files", OpensOfFiles());
  report("opens of one file by as many clients", OpensOfOneFile());
  report("ranges of one lock-owner on one file", RangesOfOneOwner());
  report("ranges of as many lock-owners on one file", RangesOfManyOwners());
  report("clients with a session", ClientsWithSessions());
  fmt::print("\n}}\n");
}

}  // namespace
}  // namespace penstock::nfs::v4

int main(int count, char** arguments) {
  const long long largest = count > 1 ? std::atoll(arguments[1]) : 1'000'000;
  if (count > 2 || largest < 1) {
    fmt::print(stderr, "usage: state_bench [LARGEST]\n");
    return 2;
  }
  penstock::nfs::v4::Run(static_cast<size_t>(largest));
  return 0;
}
