// Chooses the provider for an address: verbs if an RDMA device has the address or leads to it, otherwise software
// iWARP.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/loop.h"
#include "base/result.h"
#include "rdma/iwarp/options.h"
#include "rdma/provider.h"
#include "rdma/verbs/device.h"

namespace penstock::rdma {

// kHost: a provider of the host process.
enum class Kind : uint8_t { kAuto, kVerbs, kIwarp, kHost };

std::optional<Kind> ParseKind(std::string_view text);  // "auto", "verbs", "iwarp"

struct Choice {
  Kind kind = Kind::kAuto;
  std::string device;  // use only this RDMA device; if empty, any device
  // kHost: makes the provider for a loop.
  std::function<std::unique_ptr<Provider>(Loop&)> make_host{};

  // Whether connections may use software iWARP.
  bool allows_iwarp() const { return (kind == Kind::kAuto || kind == Kind::kIwarp) && device.empty(); }
};

// The choice for an address.
struct Chosen {
  Kind kind = Kind::kIwarp;  // never kAuto
  std::string description;   // for the user
};
// Chooses for an address that a server listens on. Fails if the user requires verbs, or a device, and no such device
// has that address.
SetupResult<Chosen> ChooseFor(const Choice& choice, const IpAddress& local);
// Chooses for an address that a client connects to. Fails if the user requires verbs, or a device, and no such device
// leads there.
SetupResult<Chosen> ChooseToward(const Choice& choice, const IpAddress& peer);

// Makes the provider that was chosen. `registry` is the same for all providers of the process.
SetupResult<std::unique_ptr<Provider>> MakeProvider(const Chosen& chosen, const Choice& choice, Loop& loop,
                                                    const iwarp::Options& iwarp,
                                                    std::shared_ptr<verbs::Registry> registry);

// The provider of a client that does not know its peers in advance. It chooses for each peer, and makes the provider of
// each kind when the first connection needs it. It does not listen.
class ChoosingProvider : public Provider {
 public:
  using Make = std::function<SetupResult<std::unique_ptr<Provider>>(const Chosen&)>;
  ChoosingProvider(Choice choice, Loop& loop, Make make)
      : choice_(std::move(choice)), loop_(loop), make_(std::move(make)) {}
  // Makes providers by MakeProvider(), and passes each through `wrap`, if that is not empty.
  using Wrap = std::function<std::unique_ptr<Provider>(std::unique_ptr<Provider>)>;
  ChoosingProvider(Choice choice, Loop& loop, const iwarp::Options& iwarp, std::shared_ptr<verbs::Registry> registry,
                   Wrap wrap = {});

  std::string_view name() const override { return "choice"; }
  BufferPool& buffers() override { return loop_.buffers(); }
  SetupResult<Provider*> Toward(const IpAddress& peer) override;
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;
  // Always uses software iWARP.
  Task<ConnectResult> StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                             ConnectOptions options) override;

 private:
  SetupResult<Provider*> ProviderOf(const Chosen& chosen);

  const Choice choice_;
  Loop& loop_;
  const Make make_;
  std::map<Kind, std::unique_ptr<Provider>> providers_;
};

}  // namespace penstock::rdma
