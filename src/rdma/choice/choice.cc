#include "rdma/choice/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "rdma/iwarp/provider.h"
#include "rdma/verbs/provider.h"

namespace penstock::rdma {
namespace {

constexpr std::string_view kSoftware = "software iWARP";

Chosen Software(std::string_view why = {}) {
  return {Kind::kIwarp, why.empty() ? std::string(kSoftware) : fmt::format("{}: {}", kSoftware, why)};
}

Chosen ByVerbs(const verbs::Traits& traits) {
  return {Kind::kVerbs, fmt::format("{}, {}", traits.name, verbs::ToString(traits.transport))};
}

// `find` gives the device that the address leads to.
SetupResult<Chosen> Choose(const Choice& choice, const asio::ip::address& address,
                           std::optional<verbs::Found> (*find)(const asio::ip::address&)) {
  if (choice.kind == Kind::kIwarp) return Software();
  const auto devices = verbs::ListDevices();
  if (!devices) {
    if (choice.kind == Kind::kVerbs) return std::unexpected(devices.error());
    return Software(devices.error().message);
  }
  const auto wanted = [&](const verbs::Traits& each) { return choice.device.empty() || each.name == choice.device; };
  std::optional<verbs::Found> found;
  if (address.is_unspecified()) {
    // All addresses: any device may be reached by one of them.
    const auto any = std::ranges::find_if(*devices, wanted);
    if (any != devices->end()) found = verbs::Found{any->name};
  } else if (!devices->empty()) {
    found = find(address);
  }
  for (const verbs::Traits& each : *devices) {
    if (found && each.name == found->device && wanted(each)) return ByVerbs(each);
  }
  if (choice.kind == Kind::kAuto && choice.device.empty()) return Software();
  const std::string which = choice.device.empty() ? "no RDMA device" : fmt::format("not {}", choice.device);
  return std::unexpected(SetupError{fmt::format(
      "{} leads to {}: `penstock devices` says what there is; --rdma iwarp needs none", address.to_string(), which)});
}

}  // namespace

std::optional<Kind> ParseKind(std::string_view text) {
  if (text == "auto") return Kind::kAuto;
  if (text == "verbs") return Kind::kVerbs;
  if (text == "iwarp") return Kind::kIwarp;
  return std::nullopt;
}

SetupResult<Chosen> ChooseFor(const Choice& choice, const asio::ip::address& local) {
  return Choose(choice, local, &verbs::DeviceOf);
}

SetupResult<Chosen> ChooseToward(const Choice& choice, const asio::ip::address& peer) {
  return Choose(choice, peer, &verbs::DeviceToward);
}

SetupResult<std::unique_ptr<Provider>> MakeProvider(const Chosen& chosen, const Choice& choice, Loop& loop,
                                                    const iwarp::Options& iwarp,
                                                    std::shared_ptr<verbs::Registry> registry) {
  if (chosen.kind == Kind::kIwarp) return std::make_unique<iwarp::Provider>(loop, iwarp);
  verbs::Options options;
  options.device = choice.device;
  return verbs::Provider::Make(loop, std::move(registry), std::move(options));
}

SetupResult<Provider*> ChoosingProvider::Toward(const asio::ip::address& peer) {
  registry_->Sweep();
  PENSTOCK_TRY(const Chosen chosen, ChooseToward(choice_, peer));
  std::unique_ptr<Provider>& provider = providers_[chosen.kind];
  if (!provider) {
    PENSTOCK_TRY(provider, make_(chosen));
    log::info("RDMA to {}: {}", peer.to_string(), chosen.description);
  }
  return provider.get();
}

Task<ConnectResult> ChoosingProvider::Connect(Address peer, ConnectOptions options) {
  auto chosen = Toward(peer.address());
  if (!chosen) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kUnreachable, chosen.error().message, {}});
  }
  co_return co_await (*chosen)->Connect(std::move(peer), std::move(options));
}

SetupResult<std::unique_ptr<Listener>> ChoosingProvider::Listen(Address) {
  return std::unexpected(SetupError{"this provider only connects"});
}

}  // namespace penstock::rdma
