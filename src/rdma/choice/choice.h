// Which provider serves an address: an RDMA device that has it, by verbs, or software iWARP.
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

enum class Kind : uint8_t { kAuto, kVerbs, kIwarp };

std::optional<Kind> ParseKind(std::string_view text);  // "auto", "verbs", "iwarp"

struct Choice {
  Kind kind = Kind::kAuto;
  std::string device;  // of verbs: this one alone; empty: whichever has the address
};

// What was chosen for an address, and what people are told of it.
struct Chosen {
  Kind kind = Kind::kIwarp;  // never kAuto
  std::string description;
};
// Where a server listens. The error: verbs were asked for, and no device has that address.
SetupResult<Chosen> ChooseFor(const Choice& choice, const IpAddress& local);
// What a client connects to.
SetupResult<Chosen> ChooseToward(const Choice& choice, const IpAddress& peer);

// The provider of what was chosen. `registry`: the same for all of the process.
SetupResult<std::unique_ptr<Provider>> MakeProvider(const Chosen& chosen, const Choice& choice, Loop& loop,
                                                    const iwarp::Options& iwarp,
                                                    std::shared_ptr<verbs::Registry> registry);

// For those who connect to peers that are not known yet: chooses for each, and makes a provider of a kind when it is first
// needed. Does not listen.
class ChoosingProvider : public Provider {
 public:
  using Make = std::function<SetupResult<std::unique_ptr<Provider>>(const Chosen&)>;
  ChoosingProvider(Choice choice, Loop& loop, Make make)
      : choice_(std::move(choice)), loop_(loop), make_(std::move(make)) {}

  std::string_view name() const override { return "choice"; }
  BufferPool& buffers() override { return loop_.buffers(); }
  SetupResult<Provider*> Toward(const IpAddress& peer) override;
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;

 private:
  const Choice choice_;
  Loop& loop_;
  const Make make_;
  std::map<Kind, std::unique_ptr<Provider>> providers_;
};

}  // namespace penstock::rdma
