#include "library/runtime.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <optional>
#include <utility>

#include "library/error_text.h"
#include "library/host_log.h"
#include "library/provider_object.h"
#include "library/structures.h"
#include "rdma/verbs/device.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

namespace penstock::library {
namespace {

// Returns zero or a negative errno.
int TakeRdma(const penstock_runtime_options& options, rdma::Choice& choice) {
  if (options.provider) {
    if (options.rdma || options.rdma_device) return Fail(EINVAL, "provider: excludes rdma and rdma_device");
    if (!options.provider->mark.is_here()) return Fail(EPERM, "the provider belongs to the parent of this process");
    choice = ChoiceOf(*options.provider);
    return 0;
  }
  const std::optional<rdma::Kind> kind = rdma::ParseKind(options.rdma ? options.rdma : "auto");
  if (!kind) return Fail(EINVAL, "rdma: must be auto, verbs or iwarp");
  choice = {.kind = *kind, .device = options.rdma_device ? options.rdma_device : ""};
  if (*kind == rdma::Kind::kIwarp && !choice.device.empty()) return Fail(EINVAL, "rdma_device: iwarp uses no device");
  return 0;
}

}  // namespace
}  // namespace penstock::library

penstock_runtime::penstock_runtime(Options options)
    : options_(std::move(options)),
      registry_(std::make_shared<rdma::verbs::Registry>()),
      workers_(options_.blocking_threads) {
  const bool is_driven = options_.threads == 0;
  for (unsigned i = 0; i < std::max(options_.threads, 1u); ++i) {
    places_.push_back(std::make_unique<Place>(this, is_driven, options_.logger));
  }
}

penstock_runtime::~penstock_runtime() {
  for (const auto& place : places_) place->Finish();
  // Its threads may still be leaving Loop::Post().
  workers_.Join();
}

bool penstock_runtime::is_busy() const {
  return std::ranges::any_of(
      places_, [](const auto& place) { return place->activity.operations > 0 || place->given_mounts > 0; });
}

Place& penstock_runtime::TakePlace() {
  const std::lock_guard lock(mutex_);
  Place& place = **std::ranges::min_element(places_, {}, [](const auto& each) { return each->mounts.load(); });
  ++place.mounts;
  return place;
}

rdma::Provider& penstock_runtime::ProviderFor(Place& place, bool crc) const {
  return place.ProviderFor(crc, [&] {
    rdma::iwarp::Options iwarp;
    iwarp.crc = crc;
    return std::make_unique<rdma::ChoosingProvider>(options_.rdma, place.loop(), iwarp, registry_);
  });
}

int library::CheckProcess(const penstock_runtime& runtime) {
  if (runtime.is_here()) return 0;
  return Fail(EPERM, "the runtime belongs to the parent of this process, which has called fork()");
}

const char* penstock_version(void) { return PENSTOCK_PROJECT_VERSION; }

void penstock_free(void* memory) { std::free(memory); }

int penstock_runtime_new(const penstock_runtime_options* options, penstock_runtime** runtime) {
  return Guarded([&] {
    if (!runtime) return Fail(EINVAL, "there is no room for the result");
    penstock_runtime_options given = PENSTOCK_RUNTIME_OPTIONS_INIT;
    if (const int wrong = TakeStructure(options, given); wrong != 0) return wrong;
    penstock_runtime::Options taken;
    taken.threads = given.threads;
    if (given.threads > 256) return Fail(EINVAL, "threads: at most 256");
    if (given.blocking_threads > 0) taken.blocking_threads = given.blocking_threads;
    if (taken.blocking_threads < 4 || taken.blocking_threads > 1024) {
      return Fail(EINVAL, "blocking_threads: from 4 to 1024");
    }
    if (const int wrong = TakeRdma(given, taken.rdma); wrong != 0) return wrong;
    if (given.log_level < PENSTOCK_LOG_DEBUG || given.log_level > PENSTOCK_LOG_ERROR) {
      return Fail(EINVAL, "log_level: must be one of penstock_log_level");
    }
    taken.logger =
        std::make_shared<log::Logger>(SinkOf(given.log, given.log_context), static_cast<log::Level>(given.log_level));
    const log::ThreadLoggerScope scope(taken.logger);
    *runtime = new penstock_runtime(std::move(taken));
    return 0;
  });
}

int penstock_runtime_free(penstock_runtime* runtime) {
  return Guarded([&] {
    if (!runtime) return 0;
    if (const int wrong = CheckProcess(*runtime); wrong != 0) return wrong;
    if (runtime->RunsHere()) return Fail(EDEADLK, "a penstock_done function must not free its runtime");
    if (runtime->is_busy()) return Fail(EBUSY, "the runtime has mounts, or operations that have not ended");
    delete runtime;
    return 0;
  });
}

int penstock_runtime_fd(const penstock_runtime* runtime) {
  return Guarded([&] {
    if (!runtime) return Fail(EINVAL, "there is no runtime");
    if (const int wrong = CheckProcess(*runtime); wrong != 0) return wrong;
    Place* const place = runtime->driven_place();
    if (!place) return Fail(EINVAL, "the runtime has threads of its own");
    return place->driven()->descriptor();
  });
}

int penstock_runtime_dispatch(penstock_runtime* runtime, int timeout_ms) {
  return Guarded([&] {
    if (!runtime) return Fail(EINVAL, "there is no runtime");
    if (const int wrong = CheckProcess(*runtime); wrong != 0) return wrong;
    Place* const place = runtime->driven_place();
    if (!place) return Fail(EINVAL, "the runtime has threads of its own");
    DrivenLoop& driven = *place->driven();
    if (driven.running()) return Fail(EDEADLK, "penstock_runtime_dispatch() runs already");
    const log::ThreadLoggerScope scope(place->logger());
    const uint64_t ended_before = place->ended;
    if (timeout_ms == 0 || place->under_way == 0) {
      driven.RunReady();
    } else if (timeout_ms < 0) {
      while (place->ended == ended_before && place->under_way > 0) driven.RunNext(std::nullopt);
    } else {
      const TimePoint end = place->loop().Now() + std::chrono::milliseconds(timeout_ms);
      Duration left = std::chrono::milliseconds(timeout_ms);
      do {
        driven.RunNext(left);
        left = end - place->loop().Now();
      } while (place->ended == ended_before && place->under_way > 0 && left > Duration::zero());
    }
    return static_cast<int>(std::min<uint64_t>(place->ended - ended_before, INT_MAX));
  });
}
