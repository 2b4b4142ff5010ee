#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/signal.h"
#include "bound_caller.h"
#include "client/mount.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/sess01/chain.h"
#include "delayed_path.h"
#include "sess01_measurements.h"

namespace penstock::bench {
namespace {

using client::Handle;
using client::Result;
using nfs4::ChainFlags;

constexpr size_t kSteps = 16;
constexpr std::string_view kStepName = "d";
// The mode of the n-th directory is this plus n, so that a walk can tell where it is.
constexpr uint32_t kFirstMode = 0700;

// Directories within each other. The caller removes them with Remove().
class Path {
 public:
  explicit Path(client::Mount& mount) : mount_(mount) {}

  Task<Result<void>> Make() {
    PENSTOCK_CO_TRY(const client::Node top, co_await mount_.Resolve(mount_.path()));
    top_ = top.handle;
    name_ = fmt::format(".penstock-bench-{}", ::getpid());
    PENSTOCK_CO_TRY(const client::Node start, co_await mount_.MakeDirectory(top_, name_, 0700));
    handles_.push_back(start.handle);
    for (size_t i = 0; i < kSteps; ++i) {
      const uint32_t mode = kFirstMode + static_cast<uint32_t>(i);
      PENSTOCK_CO_TRY(const client::Node next, co_await mount_.MakeDirectory(handles_.back(), kStepName, mode));
      handles_.push_back(next.handle);
    }
    co_return Result<void>();
  }
  Task<Result<void>> Remove() {
    while (handles_.size() > 1) {
      handles_.pop_back();
      PENSTOCK_CO_CHECK(co_await mount_.RemoveDirectory(handles_.back(), kStepName));
    }
    if (!handles_.empty()) PENSTOCK_CO_CHECK(co_await mount_.RemoveDirectory(top_, name_));
    co_return Result<void>();
  }

  // handle(0) is where the walk starts, and handle(n) is that of the n-th directory.
  const Handle& handle(size_t n) const { return handles_[n]; }

 private:
  client::Mount& mount_;
  Handle top_;
  std::string name_;
  std::vector<Handle> handles_;
};

enum class Form : uint8_t { kOne, kChained, kWaiting };
constexpr std::array kForms = {Form::kOne, Form::kChained, Form::kWaiting};
constexpr std::array<std::string_view, kForms.size()> kFormNames = {"one COMPOUND", "16 chained", "16, each waiting"};

nfs4::LOOKUP4args LookUp() { return {nfs4::component4(kStepName)}; }
nfs4::GETATTR4args GetAttributes() { return {client::v4::FileAttributes()}; }

// Makes sure that these are the attributes of the n-th directory.
Result<void> Check(const nfs4::GETATTR4res& result, size_t n) {
  const auto attributes = client::v4::DecodeAttributes(result.resok4().obj_attributes);
  if (attributes && attributes->mode == kFirstMode + n) return {};
  return std::unexpected(client::Error{fmt::format("step {}: the server has answered about another directory", n), {}});
}

// Walks down the path.
class Walk {
 public:
  Walk(BoundCaller& caller, const Path& path) : caller_(caller), path_(path) {}

  Task<Result<void>> Go(Form form) {
    switch (form) {
      case Form::kOne:
        co_return co_await GoAsOne(std::make_index_sequence<kSteps>());
      case Form::kChained:
        co_return co_await GoChained();
      case Form::kWaiting:
        break;
    }
    co_return co_await GoWaiting();
  }

 private:
  template <size_t... n>
  Task<Result<void>> GoAsOne(std::index_sequence<n...> /*steps*/) {
    const auto step = [](size_t) { return std::tuple(LookUp(), GetAttributes()); };
    const std::tuple operations = std::tuple_cat(std::tuple(nfs4::PUTFH4args{path_.handle(0)}), step(n)...);
    auto reply = co_await caller_.Call(0, ChainFlags::NOCHAIN, operations);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    Result<void> checked;
    ((checked = checked ? Check(std::get<2 + 2 * n>(reply->results), n) : std::move(checked)), ...);
    co_return checked;
  }

  Task<Result<void>> GoChained() {
    running_ = kSteps;
    for (size_t i = 0; i < kSteps; ++i) Spawn(GoStep(i));
    while (running_ > 0) co_await ended_;
    if (error_) co_return std::unexpected(*std::exchange(error_, std::nullopt));
    co_return Result<void>();
  }
  // The current filehandle lasts from one request of the chain to the next.
  Task<void> GoStep(size_t n) {
    const auto flag = client::v4::sess01::FlagOf(n, kSteps);
    const auto stream = static_cast<uint32_t>(n);
    Result<void> done;
    if (n == 0) {
      const std::tuple operations(nfs4::PUTFH4args{path_.handle(0)}, LookUp(), GetAttributes());
      auto reply = co_await caller_.Call(stream, flag, operations);
      done = reply ? Check(std::get<2>(reply->results), n) : std::unexpected(std::move(reply).error());
    } else {
      const std::tuple operations(LookUp(), GetAttributes());
      auto reply = co_await caller_.Call(stream, flag, operations);
      done = reply ? Check(std::get<1>(reply->results), n) : std::unexpected(std::move(reply).error());
    }
    if (!done && !error_) error_ = std::move(done).error();
    --running_;
    ended_.Notify();
  }

  Task<Result<void>> GoWaiting() {
    Handle current = path_.handle(0);
    for (size_t i = 0; i < kSteps; ++i) {
      const std::tuple operations(nfs4::PUTFH4args{current}, LookUp(), GetAttributes(), client::v4::GetHandle());
      auto reply = co_await caller_.Call(0, ChainFlags::NOCHAIN, operations);
      if (!reply) co_return std::unexpected(std::move(reply).error());
      PENSTOCK_CO_CHECK(Check(std::get<2>(reply->results), i));
      current = std::get<3>(reply->results).resok4().object;
    }
    co_return Result<void>();
  }

  BoundCaller& caller_;
  const Path& path_;
  size_t running_ = 0;
  Signal ended_;
  std::optional<client::Error> error_;
};

using Samples = std::array<std::vector<double>, kForms.size()>;  // in microseconds, the median of each round

Task<Result<void>> MeasureForms(Surroundings where, BoundCaller& caller, const Path& path, const ChainOptions& options,
                                Samples& samples) {
  Walk walk(caller, path);
  for (const Form form : kForms) PENSTOCK_CO_CHECK(co_await walk.Go(form));  // the first ones fill caches
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < kForms.size(); ++i) {
      const size_t form = (i + round) % kForms.size();
      const TimePoint end =
          where.loop.Now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds));
      std::vector<double> times;
      TimePoint began = where.loop.Now();
      do {
        PENSTOCK_CO_CHECK(co_await walk.Go(kForms[form]));
        const TimePoint now = where.loop.Now();
        times.push_back(std::chrono::duration<double, std::micro>(now - std::exchange(began, now)).count());
      } while (began < end);
      samples[form].push_back(Quantile(std::move(times), 0.5));
    }
  }
  co_return Result<void>();
}

Task<Result<void>> MeasureDelay(Surroundings where, const Path& path, const ChainOptions& options, double delay) {
  client::Url url = options.url;
  std::unique_ptr<DelayedPath> delayed;
  if (delay > 0) {
    const std::chrono::duration<double, std::milli> time(delay);
    auto opened = DelayedPath::Open(url.host, url.port, std::chrono::duration_cast<DelayedPath::Delay>(time));
    if (!opened) co_return std::unexpected(client::Error{opened.error().message, {}});
    delayed = *std::move(opened);
    url.host = "127.0.0.1";
    url.port = delayed->port();
  }
  auto caller = co_await BoundCaller::Open(where.loop, where.workers, url, &where.provider, kSteps);
  if (!caller) co_return std::unexpected(std::move(caller).error());
  Samples samples;
  Result<void> measured = co_await MeasureForms(where, **caller, path, options, samples);
  Result<void> closed = co_await (*caller)->Close();
  if (!measured) co_return measured;
  if (!closed) co_return closed;
  const double one = Quantile(samples[0], 0.5);
  for (size_t i = 0; i < kForms.size(); ++i) {
    const double time = Quantile(samples[i], 0.5);
    const double spread = (Quantile(samples[i], 0.75) - Quantile(samples[i], 0.25)) / 2 / time;
    fmt::print("{:>8g}  {:18} {:>10.1f} {:>10.2f} {:>9.0f} %\n", delay, kFormNames[i], time, time / one, 100 * spread);
  }
  std::fflush(stdout);
  co_return Result<void>();
}

Task<Result<void>> MeasureDelays(Surroundings where, Path& path, const ChainOptions& options) {
  PENSTOCK_CO_CHECK(co_await path.Make());
  fmt::print("{:>8}  {:18} {:>10} {:>10} {:>11}\n", "delay ms", "form", "p50 us", "of one", "+-");
  for (const double delay : options.delays) PENSTOCK_CO_CHECK(co_await MeasureDelay(where, path, options, delay));
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> MeasureChains(Surroundings where, const ChainOptions& options) {
  const client::MountOptions mount_options{.retry = {}, .provider = &where.provider, .delegations = 0};
  PENSTOCK_CO_TRY(const auto mount,
                  co_await client::Mount::Open(where.loop, where.workers, options.url, mount_options));
  Path path(*mount);
  Result<void> measured = co_await MeasureDelays(where, path, options);
  Result<void> removed = co_await path.Remove();
  co_await mount->Unmount();
  co_await Sleep(where.loop, Duration::zero());
  co_return measured ? removed : measured;
}

}  // namespace penstock::bench
