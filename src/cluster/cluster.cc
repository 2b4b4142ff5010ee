#include "cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/texts.h"
#include "base/thread.h"
#include "cluster/client_entry.h"
#include "fs/errno.h"

namespace penstock::cluster {
namespace {

using nfs::v4::RecoveryRecord;
using nfs::v4::RecoveryStore;

constexpr const char* kMembers = "members";
constexpr const char* kBeats = "beats";
constexpr std::string_view kClients = "clients-", kReplies = "replies-";
// Other servers change the members within milliseconds, and seldom.
constexpr int kMostAttempts = 100;
// How many objects are removed at once, and how often it is looked for them.
constexpr size_t kRemovedAtOnce = 50;
constexpr size_t kTidiesBetween = 150;

std::string ClientsOf(uint32_t instance) { return fmt::format("{}{}", kClients, instance); }
std::string BeatOf(uint32_t instance) { return fmt::format("{}", instance); }

bool IsIn(const std::vector<uint32_t>& runs, uint32_t run) { return std::ranges::find(runs, run) != runs.end(); }

std::string NewScope() {
  std::array<std::byte, 16> octets;
  FillRandomly(octets);
  return "penstock-" + Hexadecimal(octets);
}

std::string Describe(int code) {
  if (code == -EOPNOTSUPP) return "its pool cannot keep entries of objects (omap): use a replicated pool";
  if (code == -EBADMSG) return "its object members is damaged, or of a later version of penstock";
  return DescribeErrno(-code);
}
std::unexpected<SetupError> Failed(int code) { return std::unexpected(SetupError{Describe(code), -code}); }

// The number at the beginning; zero if there is none.
uint32_t RunOf(std::string_view text) {
  uint32_t instance = 0;
  std::from_chars(text.data(), text.data() + text.size(), instance);
  return instance;
}

class ClusterRecoveryStore final : public RecoveryStore {
 public:
  explicit ClusterRecoveryStore(Cluster& cluster) : cluster_(cluster) {}
  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) override {
    return cluster_.Begin(lease, wall_clock);
  }
  bool Record(const RecoveryRecord& client) override { return cluster_.Record(client); }
  bool Remove(const std::string& owner) override { return cluster_.Remove(owner); }
  bool EndGrace() override { return cluster_.EndGrace(); }

 private:
  Cluster& cluster_;
};

}  // namespace

Cluster::Cluster(std::shared_ptr<objects::Store> store, Options options)
    : store_(std::move(store)), options_(std::move(options)) {}

std::unique_ptr<RecoveryStore> Cluster::MakeRecoveryStore() { return std::make_unique<ClusterRecoveryStore>(*this); }

bool Cluster::Report(Health& health, int code) {
  const bool fails = code < 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(health.fails, fails) == fails) return !fails;
  }
  if (fails) {
    log::error("the cluster {}: its objects cannot be used: {}; until then {}", options_.name, Describe(code),
               health.effect);
  } else {
    log::warn("the cluster {}: its objects can be used again", options_.name);
  }
  return !fails;
}

int Cluster::ReadMembers(Members& members, uint64_t& version) {
  objects::Store::Object object;
  version = 0;
  if (const int code = store_->Read(kMembers, object); code < 0) return code;
  std::optional<Members> parsed = ParseMembers(object.content);
  if (!parsed) return -EBADMSG;
  members = *std::move(parsed);
  version = object.version;
  return 0;
}

int Cluster::Change(const std::function<bool(Members&)>& change) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Members members;
    uint64_t version = 0;
    int code = ReadMembers(members, version);
    if (code < 0 && code != -ENOENT) return code;
    const Members before = members;
    if (!change(members)) return -ECANCELED;
    if (members == before) return 0;
    code = store_->Replace(kMembers, version, ToText(members));
    if (code != -ECANCELED) return code;
  }
  return -EAGAIN;
}

// Whoever ends a lost run removes the object of its clients first. So a server that does not know yet that it is lost
// records no client any more, whatever its clock says.
int Cluster::MakeObjects() {
  for (const std::string& name : {std::string(kBeats), ClientsOf(instance_)}) {
    if (const int code = store_->Replace(name, 0, ""); code < 0 && code != -ECANCELED) return code;
  }
  return 0;
}

bool Cluster::HadClients(uint32_t instance) {
  std::map<std::string, std::string> entries;
  return store_->ListEntries(ClientsOf(instance), entries) < 0 || !entries.empty();
}

SetupResult<std::vector<RecoveryRecord>> Cluster::LoadClients() {
  std::map<std::string, Loaded> found;
  for (const uint32_t run : earlier_runs_) {
    std::map<std::string, std::string> entries;
    if (const int code = store_->ListEntries(ClientsOf(run), entries); code < 0) {
      return std::unexpected(SetupError{
          fmt::format(
              "the object {}, which has the clients of an earlier run: {}. If it is lost, remove it (rados rm): "
              "then these clients cannot reclaim",
              ClientsOf(run), Describe(code)),
          -code});
    }
    for (const auto& [key, value] : entries) {
      std::optional<RecoveryRecord> client = ParseClient(value);
      if (client) {
        found.insert_or_assign(key, Loaded{run, *std::move(client)});
      } else {
        log::error("the cluster {}: the entry {} of the object {} is damaged: its client cannot reclaim", options_.name,
                   key, ClientsOf(run));
      }
    }
  }
  std::vector<RecoveryRecord> clients;
  for (const auto& [key, each] : found) clients.push_back(each.client);
  const std::lock_guard recording(recording_);
  loaded_ = std::move(found);
  return clients;
}

SetupResult<void> Cluster::CheckNoTwin(const Members::Member& earlier) {
  // One process at a time uses the state directory, so the earlier run has ended.
  if (!options_.server.empty() && earlier.server == options_.server) return {};
  std::map<std::string, std::string> before, after;
  int code = store_->ListEntries(kBeats, before);
  // A server that lives shows it within its patience, or serves nobody soon.
  if (code == 0 && !options_.wait(options_.patience + options_.interval)) code = -ECANCELED;
  if (code == 0) code = store_->ListEntries(kBeats, after);
  if (code < 0) return Failed(code);
  const auto beat = after.find(BeatOf(earlier.instance));
  if (beat == after.end() || before[beat->first] == beat->second) return {};
  return std::unexpected(
      SetupError{fmt::format("another server that is its member {} is running: give each server a name of its own with "
                             "node=",
                             options_.node)});
}

SetupResult<void> Cluster::Join(Duration lease, std::chrono::sys_seconds wall_clock, RecoveryStore::Restart& restart) {
  const auto now = static_cast<uint32_t>(wall_clock.time_since_epoch().count());
  Members members;
  uint64_t version = 0;
  int code = ReadMembers(members, version);
  if (code < 0 && code != -ENOENT) return Failed(code);
  std::optional<Members::Member> earlier;
  bool had_clients = false;
  if (const auto found = members.nodes.find(options_.node); found != members.nodes.end()) {
    earlier = found->second;
    if (!IsIn(attempts_, earlier->instance)) {
      PENSTOCK_CHECK(CheckNoTwin(*earlier));
      had_clients = HadClients(earlier->instance);
    }
  }
  bool is_full = false;
  const auto join = [&](Members& joined) {
    const auto found = joined.nodes.find(options_.node);
    const bool is_member = found != joined.nodes.end();
    // Another server has come with the same name.
    if (is_member && !IsIn(attempts_, found->second.instance) &&
        (!earlier || found->second.instance != earlier->instance)) {
      return false;
    }
    if (!is_member || !IsIn(attempts_, found->second.instance)) {
      is_full = joined.last_instance == UINT32_MAX;
      if (is_full) return false;
      if (joined.scope.empty()) joined.scope = NewScope();
      joined.Lose(options_.node, had_clients);
      std::erase_if(joined.lost, [&](const Members::Lost& run) { return run.node == options_.node && run.over; });
      joined.last_instance = std::max(now, joined.last_instance + 1);
      joined.nodes[options_.node] = {
          .instance = joined.last_instance, .lease = lease, .server = options_.server, .enforces = joined.epoch};
    }
    members = joined;
    return true;
  };
  code = Change(join);
  if (is_full) return std::unexpected(SetupError{"the numbers of its runs are used up: a server's clock was wrong"});
  if (code == -ECANCELED) {
    return std::unexpected(SetupError{fmt::format(
        "another server has become its member {}: give each server a name of its own with node=", options_.node)});
  }
  const auto mine = members.nodes.find(options_.node);
  if (mine != members.nodes.end()) attempts_.push_back(mine->second.instance);
  if (code < 0) return Failed(code);
  scope_ = members.scope;
  instance_ = mine->second.instance;
  lease_ = lease;
  restart.instance = instance_;
  if (earlier) restart.last_lease = earlier->lease;
  earlier_runs_.clear();
  for (const Members::Lost& run : members.lost) {
    if (run.node != options_.node) continue;
    earlier_runs_.push_back(run.instance);
    restart.last_lease = std::max(restart.last_lease, run.lease);
  }
  return {};
}

SetupResult<void> Cluster::EnterGrace(RecoveryStore::Restart& restart) {
  Members members;
  int code = MakeObjects();
  if (code == 0) code = LookAround(members);
  // This server gives nothing yet.
  if (code == 0) code = Enforce(members);
  if (code == -ESTALE) {
    return std::unexpected(SetupError{"the other servers have taken this one for lost while it started"});
  }
  if (code < 0) return Failed(code);
  if (!members.AllEnforce()) {
    return std::unexpected(
        SetupError{fmt::format("these members do not enforce the grace period: {}", members.Laggards()), EAGAIN});
  }
  PENSTOCK_TRY(restart.clients, LoadClients());
  // No client will make the server end its period.
  if (restart.clients.empty() && !EndGrace()) return Failed(-ETIMEDOUT);
  return {};
}

SetupResult<RecoveryStore::Restart> Cluster::Begin(Duration lease, std::chrono::sys_seconds wall_clock) {
  const TimePoint limit = options_.now() + options_.begin_limit;
  RecoveryStore::Restart restart;
  bool is_told = false;
  const auto repeat = [&](auto attempt) -> SetupResult<void> {
    for (;;) {
      const auto done = attempt();
      if (done) return {};
      const bool may_succeed = done.error().number == EAGAIN || done.error().number == ETIMEDOUT;
      if (!may_succeed || options_.now() >= limit) {
        return std::unexpected(
            SetupError{fmt::format("the cluster {}: {}", options_.name, done.error().message), done.error().number});
      }
      if (!std::exchange(is_told, true))
        log::warn("the cluster {}: the start waits: {}", options_.name, done.error().message);
      if (!options_.wait(options_.interval)) return std::unexpected(SetupError{"the start was stopped", ECANCELED});
    }
  };
  auto begun = repeat([&] { return Join(lease, wall_clock, restart); });
  if (begun) begun = repeat([&] { return EnterGrace(restart); });
  if (!begun) {
    Leave();
    return std::unexpected(std::move(begun).error());
  }
  has_begun_ = true;
  if (options_.has_threads) {
    threads_.push_back(StartThread("penstock-member", [this] { Repeat(options_.interval, &Cluster::Look); }));
    threads_.push_back(StartThread("penstock-watch", [this] { Repeat(options_.interval / 8, &Cluster::Watch); }));
    threads_.push_back(StartThread("penstock-tidy", [this] { Repeat(options_.interval, &Cluster::Tidy); }));
  }
  return restart;
}

int Cluster::LookAround(Members& members) {
  const TimePoint began = options_.now();
  uint64_t version = 0;
  if (const int code = ReadMembers(members, version); code < 0) return code;
  if (!members.Find(options_.node, instance_)) return -ESTALE;
  const TimePoint beats_at = options_.now();
  int code = store_->SetEntry(kBeats, BeatOf(instance_), fmt::format("{}", ++beat_));
  std::map<std::string, std::string> beats;
  if (code == 0) code = store_->ListEntries(kBeats, beats);
  if (code < 0) return code;
  const TimePoint now = options_.now();
  if (const Duration gap = began - last_look_; gap > options_.patience / 2) {
    // The store has not answered, or the machines were suspended. Meanwhile, the others could not show that they live,
    // or start.
    for (auto& [run, beat] : beats_) beat.since += gap;
    for (auto& [run, loss] : losses_) loss.first += gap, loss.absent_since += gap;
  }
  last_look_ = now;
  {
    const std::lock_guard lock(mutex_);
    last_beat_ = beats_at;
  }
  std::map<std::string, uint32_t> silent;
  for (const auto& [name, member] : members.nodes) {
    if (name == options_.node) continue;
    const std::string& value = beats[BeatOf(member.instance)];
    Beat& beat = beats_.try_emplace(member.instance, Beat{value, now}).first->second;
    if (beat.value != value) beat = {value, now};
    if (now - beat.since >= options_.patience) silent.emplace(name, member.instance);
  }
  std::erase_if(beats_, [&](const auto& each) { return !members.Knows(each.first); });
  if (silent.empty()) return 0;
  code = Change([&](Members& changed) {
    std::erase_if(silent, [&](const auto& each) { return !changed.Find(each.first, each.second); });
    // It may get a client at any time, until it learns of this.
    for (const auto& [name, instance] : silent) changed.Lose(name, true);
    members = changed;
    return true;
  });
  if (code < 0) return code;
  for (const auto& [name, instance] : silent) {
    log::warn("the cluster {}: its member {} has been silent for {} s, and is taken for lost", options_.name, name,
              std::chrono::duration_cast<std::chrono::seconds>(options_.patience).count());
  }
  return 0;
}

int Cluster::Enforce(Members& members) {
  const Members::Member* const known = members.Find(options_.node, instance_);
  if (!known) return -ESTALE;
  if (known->enforces >= members.epoch) return 0;
  const uint64_t epoch = members.epoch;
  const int code = Change([&](Members& changed) {
    Members::Member* const mine = changed.Find(options_.node, instance_);
    if (!mine) return false;
    mine->enforces = std::max(mine->enforces, epoch);
    members = changed;
    return true;
  });
  return code == -ECANCELED ? -ESTALE : code;
}

// The clients of a server that does not come back have had the time to reclaim that a restart would have given them. If
// it has come back, it ends its losses itself; but if it starts again and again, the clients have their time once.
int Cluster::EndOldLosses(Members& members) {
  const TimePoint now = options_.now();
  std::vector<uint32_t> ended, over;
  std::erase_if(losses_, [&](const auto& each) { return !members.Knows(each.first); });
  for (const Members::Lost& run : members.lost) {
    const Duration time = std::max(options_.grace, run.lease);
    Loss& loss = losses_.try_emplace(run.instance, Loss{now, now}).first->second;
    const bool is_absent = !members.nodes.contains(run.node);
    if (!is_absent) loss.absent_since = now;
    // Once for its return, and once for its clients.
    const bool is_over = now - loss.first >= 2 * time;
    if (is_absent && (is_over || now - loss.absent_since >= time)) ended.push_back(run.instance);
    if (is_over && !run.over) over.push_back(run.instance);
  }
  if (ended.empty() && over.empty()) return 0;
  // See MakeObjects(). If the object cannot be reached, its server does not reach it either.
  for (const uint32_t run : ended) store_->Remove(ClientsOf(run));
  return Change([&](Members& changed) {
    std::erase_if(changed.lost, [&](const Members::Lost& run) {
      return IsIn(ended, run.instance) && !changed.nodes.contains(run.node);
    });
    for (Members::Lost& run : changed.lost) run.over = run.over || IsIn(over, run.instance);
    members = changed;
    return true;
  });
}

void Cluster::Look() {
  const std::lock_guard lock(looking_);
  Members members;
  int code = LookAround(members);
  if (code == 0) {
    // Before the others learn that this server enforces the epoch.
    if (members.in_grace()) Tell(in_grace_, [] { return true; });
    code = Enforce(members);
  }
  if (code == 0) code = EndOldLosses(members);
  if (code == -ESTALE) return Expel("the other servers have taken this one for lost");
  if (!Report(looks_, code)) return;
  // The look may have taken long.
  Tell(is_silent_, [this] { return IsSilentFor(options_.patience / 2); });
  if (!members.in_grace()) Tell(in_grace_, [] { return false; });
}

bool Cluster::IsSilentFor(Duration time) {
  const std::lock_guard lock(mutex_);
  return options_.now() - last_beat_ >= time;
}

void Cluster::Watch() {
  if (IsSilentFor(options_.patience / 2)) Tell(is_silent_, [] { return true; });
  // The others wait for `patience`, and then for our lease at least, before they give anything away.
  if (IsSilentFor(options_.patience + lease_ / 2)) Expel("this server cannot show the others that it lives");
}

void Cluster::Tell(bool& cause, const std::function<bool()>& is_so) {
  const std::lock_guard lock(telling_);
  if (!expelled_.empty()) return;
  cause = is_so();
  const bool holds = in_grace_ || is_silent_;
  if (std::exchange(holds_, holds) == holds) return;
  const auto& event = holds ? events_.hold : events_.release;
  if (event) event();
}

void Cluster::Expel(const std::string& why) {
  const std::lock_guard lock(telling_);
  if (!expelled_.empty()) return;
  expelled_ = why;
  if (!std::exchange(holds_, true) && events_.hold) events_.hold();
  if (events_.expelled) events_.expelled(why);
}

void Cluster::Start(Events events) {
  const std::lock_guard lock(telling_);
  events_ = std::move(events);
  if (!expelled_.empty() && events_.expelled) events_.expelled(expelled_);
  // The server holds from the beginning.
  if (!holds_ && events_.release) events_.release();
}

void Cluster::Tidy() {
  const std::lock_guard lock(tidying_);
  Repair();
  RemoveLeftovers();
}

void Cluster::RemoveLeftovers() {
  if (leftovers_.empty() && tidied_++ % kTidiesBetween == 0) {
    Members members;
    uint64_t version = 0;
    if (ReadMembers(members, version) < 0) return;
    // A run is known before it has objects; one that has begun since has a greater number.
    const auto is_leftover = [&](uint32_t run) { return !members.Knows(run) && run <= members.last_instance; };
    for (const std::string_view prefix : {kClients, kReplies}) {
      std::vector<std::string> names;
      if (store_->ListNames(prefix, names) < 0) return;
      for (std::string& name : names) {
        if (is_leftover(RunOf(std::string_view(name).substr(prefix.size())))) leftovers_.push_back(std::move(name));
      }
    }
    std::map<std::string, std::string> beats;
    if (store_->ListEntries(kBeats, beats) < 0) return;
    for (const auto& [run, value] : beats) {
      if (is_leftover(RunOf(run)) && store_->RemoveEntry(kBeats, run) < 0) return;
    }
  }
  // The others wait for their turn, so that they do not disturb the clients of the pool.
  for (size_t i = 0; i < kRemovedAtOnce && !leftovers_.empty() && !ends(); ++i) {
    if (store_->Remove(leftovers_.back()) < 0) return;
    leftovers_.pop_back();
  }
}

int Cluster::SetClient(const EntryName& name, const RecoveryRecord* client) {
  const std::string object = ClientsOf(name.run);
  if (IsSilentFor(options_.patience / 2)) return -ETIMEDOUT;
  const int code =
      client ? store_->SetEntry(object, name.key, ValueOf(*client)) : store_->RemoveEntry(object, name.key);
  return code == 0 && IsSilentFor(options_.patience / 2) ? -ETIMEDOUT : code;
}

bool Cluster::Record(const RecoveryRecord& client) {
  const std::lock_guard recording(recording_);
  const EntryName name{instance_, KeyOf(client.owner)};
  if (!Report(records_, SetClient(name, &client))) {
    const auto before = recorded_.find(name.key);
    unsure_[name] = before == recorded_.end() ? std::nullopt : std::optional(before->second);
    return false;
  }
  recorded_.insert_or_assign(name.key, client);
  unsure_.erase(name);
  return true;
}

bool Cluster::Remove(const std::string& owner) {
  const std::lock_guard recording(recording_);
  const std::string key = KeyOf(owner);
  const auto recorded = recorded_.find(key);
  const auto loaded = loaded_.find(key);
  std::vector<uint32_t> runs = earlier_runs_;
  runs.push_back(instance_);
  for (const uint32_t run : runs) {
    if (Report(records_, SetClient({run, key}, nullptr))) continue;
    // The client keeps its state, and may reclaim as before.
    if (recorded != recorded_.end()) unsure_[{instance_, key}] = recorded->second;
    if (loaded != loaded_.end()) unsure_[{loaded->second.run, key}] = loaded->second.client;
    return false;
  }
  if (recorded != recorded_.end()) recorded_.erase(recorded);
  if (loaded != loaded_.end()) loaded_.erase(loaded);
  for (const uint32_t run : runs) unsure_.erase({run, key});
  return true;
}

void Cluster::Repair() {
  for (;;) {
    // Another change may come between two repairs.
    const std::lock_guard recording(recording_);
    if (unsure_.empty() || ends()) return;
    const auto& [name, client] = *unsure_.begin();
    if (!Report(records_, SetClient(name, client ? &*client : nullptr))) return;
    unsure_.erase(unsure_.begin());
  }
}

bool Cluster::EndGrace() {
  const std::lock_guard recording(recording_);
  const int code = Change([&](Members& members) {
    if (!members.Find(options_.node, instance_)) return false;
    std::erase_if(members.lost, [&](const Members::Lost& run) { return IsIn(earlier_runs_, run.instance); });
    return true;
  });
  if (code == -ECANCELED || !Report(records_, code)) return false;
  // The clients that have not come back are forgotten.
  earlier_runs_.clear();
  loaded_.clear();
  std::erase_if(unsure_, [&](const auto& each) { return each.first.run != instance_; });
  return true;
}

void Cluster::Repeat(Duration interval, void (Cluster::*work)()) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [&] { return ends_; })) {
    lock.unlock();
    (this->*work)();
    lock.lock();
  }
}

bool Cluster::ends() {
  const std::lock_guard lock(mutex_);
  return ends_;
}

void Cluster::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    wake_.notify_all();
  }
  for (std::thread& each : threads_) each.join();
  threads_.clear();
}

void Cluster::Leave() {
  Stop();
  // It has never tried to become a member, or has left.
  if (attempts_.empty()) return;
  const bool had_clients = has_begun_ && HadClients(instance_);
  const int code = Change([&](Members& members) {
    const auto mine = members.nodes.find(options_.node);
    if (mine == members.nodes.end() || !IsIn(attempts_, mine->second.instance)) return false;
    members.Lose(options_.node, had_clients);
    return true;
  });
  attempts_.clear();
  if (code == 0 && instance_ != 0) store_->RemoveEntry(kBeats, BeatOf(instance_));
}

}  // namespace penstock::cluster
