// The C functions of include/penstock/provider.h.
#include "penstock/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address_text.h"
#include "library/error_text.h"
#include "library/provider/adapted_provider.h"
#include "library/provider_object.h"
#include "library/structures.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

namespace penstock::library {
namespace {

constexpr uint32_t kUsualMessage = 1 << 20, kUsualTransfer = 1 << 30;
constexpr uint32_t kLeastMessage = 4096;  // what NFS over RDMA needs (RFC 8797 §4)
constexpr size_t kUsualPrivateData = 512, kLeastPrivateData = 56, kMostPrivateData = 1024;
constexpr size_t kLongestDetail = 200;

bool HasRequired(const penstock_provider_ops& ops) {
  return ops.connect && ops.listen && ops.stop_listening && ops.accept && ops.reject && ops.post_receive && ops.send &&
         ops.write && ops.read && ops.expose && ops.invalidate && ops.disconnect && ops.close;
}

// Returns zero or a negative errno.
int TakeProperties(const penstock_provider_options& options, ProviderProperties& properties) {
  if ((options.flags & ~unsigned{PENSTOCK_PROVIDER_REMOTE_INVALIDATION}) != 0) {
    return Fail(EINVAL, "flags: there are unknown ones");
  }
  properties.name = options.name ? options.name : "host";
  properties.remote_invalidation = (options.flags & PENSTOCK_PROVIDER_REMOTE_INVALIDATION) != 0;
  properties.limits.max_message = options.max_message > 0 ? options.max_message : kUsualMessage;
  properties.limits.max_transfer = options.max_transfer > 0 ? options.max_transfer : kUsualTransfer;
  if (std::min(properties.limits.max_message, properties.limits.max_transfer) < kLeastMessage) {
    return Fail(EINVAL, fmt::format("max_message and max_transfer: at least {}", kLeastMessage));
  }
  properties.max_private_data = options.max_private_data > 0 ? options.max_private_data : kUsualPrivateData;
  if (properties.max_private_data < kLeastPrivateData || properties.max_private_data > kMostPrivateData) {
    return Fail(EINVAL, fmt::format("max_private_data: from {} to {}", kLeastPrivateData, kMostPrivateData));
  }
  return 0;
}

// Returns zero or a negative errno.
int TakePrivateData(const void* data, size_t size, std::vector<std::byte>& taken) {
  if (size > kMostPrivateData || (size > 0 && !data)) return Fail(EINVAL, "private_data: at most 1024 octets");
  const auto* const octets = static_cast<const std::byte*>(data);
  taken.assign(octets, octets + size);
  return 0;
}

// Returns zero or a negative errno.
int TakeAddress(std::string_view name, const char* text, SocketAddress& taken) {
  const auto address = text ? ParseSocketAddress(text) : std::nullopt;
  if (!address) return Fail(EINVAL, fmt::format("{}: must be an address with a port, such as 192.0.2.1:20049", name));
  taken = *address;
  return 0;
}

// Returns zero or a negative errno.
int TakePeer(const penstock_rdma_peer* peer, PeerFacts& facts) {
  penstock_rdma_peer given = PENSTOCK_RDMA_PEER_INIT;
  if (const int wrong = TakeStructure(peer, given); wrong != 0) return wrong;
  if (const int wrong = TakeAddress("local", given.local, facts.local); wrong != 0) return wrong;
  if (const int wrong = TakeAddress("peer", given.peer, facts.peer); wrong != 0) return wrong;
  if (given.depths) facts.depths = rdma::ReadDepths{.ird = given.depths->ird, .ord = given.depths->ord};
  return TakePrivateData(given.private_data, given.private_size, facts.private_data);
}

// One printable line of bounded length.
std::string DetailOf(const char* text) {
  if (!text) return {};
  std::string detail(text, ::strnlen(text, kLongestDetail));
  const auto is_control = [](char octet) { return static_cast<unsigned char>(octet) < ' ' || octet == '\x7f'; };
  std::ranges::replace_if(detail, is_control, ' ');
  return detail;
}

// Returns zero or a negative errno.
int TakeEnd(const penstock_rdma_end* end, EndFacts& facts) {
  penstock_rdma_end given = PENSTOCK_RDMA_END_INIT;
  if (const int wrong = TakeStructure(end, given); wrong != 0) return wrong;
  // A host can give any number, which must not be read as one of the enumeration.
  unsigned reason = 0;
  static_assert(sizeof reason == sizeof given.reason);
  std::memcpy(&reason, &given.reason, sizeof reason);
  if (reason < PENSTOCK_RDMA_CLOSED || reason > PENSTOCK_RDMA_TIMED_OUT) {
    return Fail(EINVAL, "reason: must be one of penstock_rdma_reason");
  }
  facts.reason = given.reason;
  facts.detail = DetailOf(given.detail);
  facts.request = given.request;
  return TakePrivateData(given.private_data, given.private_size, facts.private_data);
}

// Runs `function`, which takes the provider's HostProvider, and returns what a C function returns.
template <class Function>
int WithProvider(penstock_provider* provider, Function function) noexcept {
  return Guarded([&] {
    if (!provider) return Fail(EINVAL, "there is no provider");
    if (!provider->mark.is_here()) return Fail(EPERM, "the provider belongs to the parent of this process");
    return function(*provider->host);
  });
}

int ResultOfTelling(int error) {
  switch (error) {
    case 0:
      return 0;
    case ENOENT:
      return Fail(ENOENT, "there is no such connection or listener, or there is none any more");
    case EAGAIN:
      return Fail(EAGAIN, "too many peers wait for an answer");
    default:
      return Fail(error);
  }
}

}  // namespace

rdma::Choice ChoiceOf(const penstock_provider& provider) {
  rdma::Choice choice;
  choice.kind = rdma::Kind::kHost;
  choice.make_host = [host = provider.host](Loop& loop) { return std::make_unique<AdaptedProvider>(loop, host); };
  return choice;
}

}  // namespace penstock::library

int penstock_provider_new(const penstock_provider_ops* ops, void* self, const penstock_provider_options* options,
                          penstock_provider** provider) {
  return Guarded([&] {
    if (!ops || !provider) return Fail(EINVAL, "functions, or a place for the provider, are missing");
    *provider = nullptr;
    penstock_provider_ops functions = PENSTOCK_PROVIDER_OPS_INIT;
    if (const int wrong = TakeStructure(ops, functions); wrong != 0) return wrong;
    penstock_provider_options given = PENSTOCK_PROVIDER_OPTIONS_INIT;
    if (const int wrong = TakeStructure(options, given); wrong != 0) return wrong;
    if (!HasRequired(functions)) return Fail(EINVAL, "all functions but allocate and release are required");
    if (!functions.allocate != !functions.release) return Fail(EINVAL, "allocate and release belong together");
    ProviderProperties properties;
    if (const int wrong = TakeProperties(given, properties); wrong != 0) return wrong;
    auto host = std::make_shared<HostProvider>(functions, self, std::move(properties));
    *provider = new penstock_provider{.mark = {}, .host = std::move(host)};
    return 0;
  });
}

int penstock_provider_free(penstock_provider* provider) {
  if (!provider) return 0;
  return WithProvider(provider, [&](HostProvider&) {
    if (IsInProviderFunction()) return Fail(EDEADLK, "a function of a provider may not free a provider");
    if (provider->host.use_count() > 1) return Fail(EBUSY, "a runtime, a server or a buffer uses the provider");
    delete provider;
    return 0;
  });
}

int penstock_provider_requested(penstock_provider* provider, uint64_t listener, void* endpoint,
                                const penstock_rdma_peer* peer, uint64_t* connection) {
  return WithProvider(provider, [&](HostProvider& host) {
    if (!endpoint || !peer || !connection) return Fail(EINVAL, "an endpoint, a peer or a place is missing");
    auto facts = std::make_unique<PeerFacts>();
    if (const int wrong = TakePeer(peer, *facts); wrong != 0) return wrong;
    return ResultOfTelling(host.TellRequest(listener, endpoint, std::move(facts), *connection));
  });
}

int penstock_provider_connected(penstock_provider* provider, uint64_t connection, const penstock_rdma_peer* peer) {
  return WithProvider(provider, [&](HostProvider& host) {
    std::unique_ptr<PeerFacts> facts;
    if (peer) {
      facts = std::make_unique<PeerFacts>();
      if (const int wrong = TakePeer(peer, *facts); wrong != 0) return wrong;
    }
    return ResultOfTelling(host.Tell({.connection = connection, .what = Event::Connected{std::move(facts)}}));
  });
}

int penstock_provider_received(penstock_provider* provider, uint64_t connection, uint64_t request, size_t length,
                               const uint32_t* invalidated, int solicited) {
  return WithProvider(provider, [&](HostProvider& host) {
    Event::Received received{.request = request, .length = length, .invalidated = {}, .solicited = solicited != 0};
    if (invalidated) received.invalidated = rdma::Stag(*invalidated);
    return ResultOfTelling(host.Tell({.connection = connection, .what = received}));
  });
}

int penstock_provider_completed(penstock_provider* provider, uint64_t connection, uint64_t request) {
  return WithProvider(provider, [&](HostProvider& host) {
    return ResultOfTelling(host.Tell({.connection = connection, .what = Event::Completed{request}}));
  });
}

int penstock_provider_ended(penstock_provider* provider, uint64_t connection, const penstock_rdma_end* end) {
  return WithProvider(provider, [&](HostProvider& host) {
    auto facts = std::make_unique<EndFacts>();
    if (const int wrong = TakeEnd(end, *facts); wrong != 0) return wrong;
    return ResultOfTelling(host.Tell({.connection = connection, .what = Event::Ended{std::move(facts)}}));
  });
}
