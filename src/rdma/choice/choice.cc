#include "rdma/choice/choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/released_socket.h"
#include "rdma/iwarp/provider.h"
#include "rdma/verbs/provider.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma {
namespace {

constexpr std::string_view kSoftware = "software iWARP";

Chosen Software(std::string_view why = {}) {
  return {Kind::kIwarp, why.empty() ? std::string(kSoftware) : fmt::format("{}: {}", kSoftware, why)};
}

Chosen ByVerbs(const verbs::Traits& traits) {
  return {Kind::kVerbs, fmt::format("{}, {}", traits.name, verbs::ToString(traits.transport))};
}

using Find = SetupResult<std::optional<verbs::Found>> (*)(const IpAddress&);

// Returns the device of `devices` that `find` selects for the address. Returns nullopt if there is none.
SetupResult<std::optional<verbs::Traits>> DeviceFor(const std::vector<verbs::Traits>& devices, const IpAddress& address,
                                                    Find find) {
  if (devices.empty()) return std::nullopt;
  // For the unspecified address each device is suitable, because peers reach it by one of its addresses.
  if (address.is_unspecified()) return devices.front();
  PENSTOCK_TRY(const std::optional<verbs::Found> found, find(address));
  for (const verbs::Traits& each : devices) {
    if (found && each.name == found->device) return each;
  }
  return std::nullopt;
}

SetupResult<Chosen> ChooseVerbs(const Choice& choice, const IpAddress& address, Find find) {
  PENSTOCK_TRY(std::vector<verbs::Traits> devices, verbs::ListDevices());
  std::erase_if(devices, [&](const auto& each) { return !choice.device.empty() && each.name != choice.device; });
  PENSTOCK_TRY(const std::optional<verbs::Traits> device, DeviceFor(devices, address, find));
  if (device) return ByVerbs(*device);
  if (choice.kind == Kind::kAuto && choice.device.empty()) return Software();
  if (devices.empty()) return std::unexpected(verbs::NoDevice(choice.device));
  return std::unexpected(
      SetupError{fmt::format("{} does not lead to {}: `penstock devices` lists the devices; --rdma iwarp needs none",
                             address.to_string(), choice.device.empty() ? "an RDMA device" : choice.device)});
}

SetupResult<Chosen> Choose(const Choice& choice, const IpAddress& address, Find find) {
  if (choice.kind == Kind::kIwarp) return Software();
  if (choice.kind == Kind::kHost) return Chosen{Kind::kHost, "a provider of the host process"};
  auto chosen = ChooseVerbs(choice, address, find);
  // Without a required device, Kind::kAuto always gives a provider. The description says why it is software iWARP.
  if (!chosen && choice.kind == Kind::kAuto && choice.device.empty()) return Software(chosen.error().message);
  return chosen;
}

}  // namespace

std::optional<Kind> ParseKind(std::string_view text) {
  if (text == "auto") return Kind::kAuto;
  if (text == "verbs") return Kind::kVerbs;
  if (text == "iwarp") return Kind::kIwarp;
  return std::nullopt;
}

SetupResult<Chosen> ChooseFor(const Choice& choice, const IpAddress& local) {
  return Choose(choice, local, &verbs::DeviceOf);
}

SetupResult<Chosen> ChooseToward(const Choice& choice, const IpAddress& peer) {
  return Choose(choice, peer, &verbs::DeviceToward);
}

SetupResult<std::unique_ptr<Provider>> MakeProvider(const Chosen& chosen, const Choice& choice, Loop& loop,
                                                    const iwarp::Options& iwarp,
                                                    std::shared_ptr<verbs::Registry> registry) {
  if (chosen.kind == Kind::kIwarp) return std::make_unique<iwarp::Provider>(loop, iwarp);
  if (chosen.kind == Kind::kHost) return choice.make_host(loop);
  verbs::Options options;
  options.device = choice.device;
  return verbs::Provider::Make(loop, std::move(registry), std::move(options));
}

ChoosingProvider::ChoosingProvider(Choice choice, Loop& loop, const iwarp::Options& iwarp,
                                   std::shared_ptr<verbs::Registry> registry, Wrap wrap)
    : ChoosingProvider(choice, loop,
                       [choice, &loop, iwarp, registry = std::move(registry),
                        wrap = std::move(wrap)](const Chosen& chosen) -> SetupResult<std::unique_ptr<Provider>> {
                         PENSTOCK_TRY(std::unique_ptr<Provider> provider,
                                      rdma::MakeProvider(chosen, choice, loop, iwarp, registry));
                         if (wrap) provider = wrap(std::move(provider));
                         return provider;
                       }) {}

SetupResult<Provider*> ChoosingProvider::Toward(const IpAddress& peer) {
  PENSTOCK_TRY(const Chosen chosen, ChooseToward(choice_, peer));
  const bool is_new = !providers_.contains(chosen.kind);
  PENSTOCK_TRY(Provider * provider, ProviderOf(chosen));
  if (is_new) log::info("RDMA to {}: {}", peer.to_string(), chosen.description);
  return provider;
}

SetupResult<Provider*> ChoosingProvider::ProviderOf(const Chosen& chosen) {
  const auto found = providers_.find(chosen.kind);
  if (found != providers_.end()) return found->second.get();
  PENSTOCK_TRY(std::unique_ptr<Provider> provider, make_(chosen));
  return providers_.emplace(chosen.kind, std::move(provider)).first->second.get();
}

Task<ConnectResult> ChoosingProvider::StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                                             ConnectOptions options) {
  auto provider = ProviderOf(Software());
  if (!provider) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kUnreachable, provider.error().message, {}});
  }
  co_return co_await (*provider)->StepUp(std::move(socket), role, std::move(last_octets), std::move(options));
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
