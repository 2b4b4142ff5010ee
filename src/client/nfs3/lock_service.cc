#include "client/nfs3/lock_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "base/pauses.h"
#include "base/random.h"
#include "client/nfs3/file_locks.h"
#include "client/retries.h"

namespace penstock::client::v3 {
namespace {

template <class Number>
Number RandomNumber() {
  Number number;
  FillRandomly(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

// A server has a grace period in which it takes reclaims. The client must not sleep through it.
RetryPolicy Soon(RetryPolicy policy) {
  policy.longest_delay = std::min<Duration>(policy.longest_delay, std::chrono::seconds(2));
  return policy;
}

}  // namespace

std::string LockService::HandleOf(int32_t owner, std::string_view client) {
  return fmt::format("{}@{}", owner, client);
}

// The host's own name is in front of the first dot: if the host's status monitor tells of its restart, the server ends
// the locks of this client as well.
LockService::LockService(Parts parts)
    : parts_(std::move(parts)),
      caller_name_(fmt::format("{}.{:016x}", HostName(), RandomNumber<uint64_t>())),
      last_owner_(RandomNumber<uint32_t>()),
      at_end_(parts_.ending,
              [this] {
                closing_.Cancel();
                ending_.Cancel();
              }),
      channel_(parts_.timers, parts_.open, Soon(parts_.retry), &ending_),
      client_(channel_, parts_.buffers, rpc::RandomXid(), parts_.credential) {
  if (!parts_.records.empty()) records_.emplace(parts_.records, parts_.server, caller_name_);
}

Task<Result<void>> LockService::Connect(std::string_view what) {
  co_await connecting_.Take();
  const Turn::Guard guard(connecting_);
  if (connected_) co_return Result<void>();
  PENSTOCK_CO_CHECK(co_await parts_.reach_server());
  const auto connected = co_await channel_.Connect();
  connected_ = connected.has_value();
  if (connected_) co_return Result<void>();
  if (ending_.cancelled()) co_return std::unexpected(Closing(what));
  std::string why =
      fmt::format("{} has no lock manager (NLM) for locks of version 3; nolock keeps them on this host: {}",
                  parts_.host, connected.error().message);
  if (!std::exchange(told_, true)) log::warn("{}", why);
  co_return std::unexpected(Error{fmt::format("{}: {}", what, why), std::nullopt, ENOLCK});
}

void LockService::Add(std::shared_ptr<FileLocks> file) {
  FileLocks* const at = file.get();
  files_.try_emplace(at, std::move(file));
}

// ---- recovery ----

void LockService::HandleLoss() {
  if (!connected_ || files_.empty() || closing_.cancelled()) return;
  is_stale_ = true;
  if (std::exchange(recovering_, true)) return;
  SpawnBackground(Recover());
}

void LockService::SpawnBackground(Task<void> task) {
  under_way_.Begin();
  Spawn([](UnderWay& under_way, Task<void> inner) -> Task<void> {
    co_await std::move(inner);
    under_way.End();
  }(under_way_, std::move(task)));
}

Task<void> LockService::Recover() {
  // This code may run inside of the lost channel. In the next turn of the loop it does not.
  co_await Sleep(parts_.timers, Duration::zero());
  Retries retries(TimePoint::max());
  while (is_stale_ && !files_.empty() && !closing_.cancelled()) {
    const auto answer = co_await client_.Call<nlm4::NLMPROC4_NULL>({});
    bool all_known = answer.has_value();
    if (all_known) {
      is_stale_ = false;
      all_known = co_await ReclaimAll();
    }
    if (all_known) continue;
    is_stale_ = true;
    ++failures_;
    changed_.Notify();
    co_await Pause(parts_.timers, retries.NextDelay(), &closing_);
  }
  is_stale_ = false;
  recovering_ = false;
  changed_.Notify();
}

Task<bool> LockService::ReclaimAll() {
  std::vector<std::shared_ptr<FileLocks>> files;
  for (const auto& [at, file] : files_) files.push_back(file);
  log::info("{}: the client asks for the locks of {} files again", parts_.host, files.size());
  for (const std::shared_ptr<FileLocks>& file : files) {
    // Another loss: Recover() begins again.
    if (is_stale_) break;
    const bool known = co_await file->Reclaim();
    if (!known) co_return false;
  }
  co_return true;
}

Task<Result<void>> LockService::Ready(std::string_view what) {
  const uint64_t failures = failures_;
  while (recovering_) {
    if (closing_.cancelled()) co_return std::unexpected(Closing(what));
    if (failures_ != failures) {
      const Error error{fmt::format("{}: the lock manager does not answer", what), std::nullopt, ETIMEDOUT};
      co_return std::unexpected(WithTrouble(error, channel_.trouble()));
    }
    co_await changed_;
  }
  co_return Result<void>();
}

// ---- records ----

Task<SetupResult<void>> LockService::ChangeRecords(std::function<SetupResult<void>()> change) {
  co_await recording_.Take();
  const Turn::Guard guard(recording_);
  SetupResult<void> changed;
  const std::function<void()> run = [&] { changed = change(); };
  co_await parts_.aside(run);
  co_return changed;
}

Task<void> LockService::Remember(LockRecord record) {
  if (!records_) co_return;
  const auto added = co_await ChangeRecords([&] { return records_->Add(record); });
  if (added || std::exchange(told_of_records_, true)) co_return;
  log::warn("{}: if this process is killed, the server keeps its locks", added.error().message);
}

Task<void> LockService::Forget(LockRecord record) {
  if (!records_) co_return;
  const auto removed = co_await ChangeRecords([&] { return records_->Remove(record); });
  if (!removed) log::debug("{}", removed.error().message);
}

void LockService::GiveBackLeftLocks() {
  if (records_) SpawnBackground(GiveBackAll());
}

Task<void> LockService::GiveBackAll() {
  std::vector<LeftLocks> left;
  const std::function<void()> find = [&] { left = FindLeftLocks(parts_.records, parts_.server); };
  co_await parts_.aside(find);
  for (const LeftLocks& each : left) {
    bool given_back = true;
    for (const LockRecord& record : each.records) {
      const bool done = co_await GiveBack(each.client, record);
      given_back = given_back && done;
    }
    // The next mount tries again.
    if (!given_back) continue;
    const std::function<void()> forget = [&] { each.Forget(); };
    co_await parts_.aside(forget);
    log::info("{}: the locks that the dead mount {} has left are given back", parts_.host, each.client);
  }
}

Task<bool> LockService::GiveBack(const std::string& client, const LockRecord& record) {
  const std::string handle = HandleOf(record.owner, client);
  Retries retries(TimePoint::max());
  while (!closing_.cancelled()) {
    const nlm4::nlm4_unlockargs arguments{.cookie = AsBytes(kCookie),
                                          .alock = {.caller_name = client,
                                                    .fh = ConstBytes(record.file),
                                                    .oh = AsBytes(handle),
                                                    .svid = record.owner,
                                                    .l_offset = 0,
                                                    .l_len = 0}};
    auto reply = co_await Call<nlm4::NLMPROC4_UNLOCK>(arguments, client);
    if (!reply) co_return false;
    const nlm4::nlm4_stats status = reply->results.stat;
    if (status == nlm4::NLM4_GRANTED || status == nlm4::NLM4_STALE_FH) co_return true;
    if (status != nlm4::NLM4_DENIED_GRACE_PERIOD) co_return false;
    co_await Pause(parts_.timers, retries.NextDelay(), &closing_);
  }
  co_return false;
}

Task<void> LockService::Stop() {
  channel_.HandleClosing();
  closing_.Cancel();
  std::vector<std::shared_ptr<FileLocks>> files;
  for (const auto& [at, file] : files_) files.push_back(file);
  for (const std::shared_ptr<FileLocks>& file : files) {
    (void)co_await file->ReleaseAll();
    if (!answered()) break;
  }
  if (!files_.empty() && !ending_.cancelled()) {
    log::warn("{}: the server keeps locks of {} files{}", parts_.host, files_.size(),
              records_ ? ", until the next mount gives them back" : "");
  }
  // This code may run inside of the connection.
  co_await Sleep(parts_.timers, Duration::zero());
  ending_.Cancel();
}

}  // namespace penstock::client::v3
