#include "nfs/host_names.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "rpc/client_key.h"

namespace penstock::nfs {
namespace {

// How many names of one address are looked at. The network of the address decides how many there are.
constexpr size_t kMostNames = 16;

std::string Lower(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.ends_with('.')) lower.pop_back();
  return lower;
}

class System final : public HostDatabase {
 public:
  Result<std::vector<IpAddress>, NoAnswer> AddressesOf(const std::string& name) override {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (error == EAI_NONAME || error == EAI_NODATA) return std::vector<IpAddress>();
    if (error != 0) return std::unexpected(NoAnswer{error == EAI_SYSTEM ? errno : EAGAIN});
    std::vector<IpAddress> addresses;
    for (const addrinfo* each = found; each; each = each->ai_next) {
      if (each->ai_family == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, each->ai_addr, sizeof v4);
        addresses.emplace_back(asio::ip::address_v4(ntohl(v4.sin_addr.s_addr)));
      } else if (each->ai_family == AF_INET6) {
        sockaddr_in6 v6;
        std::memcpy(&v6, each->ai_addr, sizeof v6);
        asio::ip::address_v6::bytes_type octets;
        std::memcpy(octets.data(), &v6.sin6_addr, octets.size());
        addresses.push_back(Unmapped(asio::ip::address_v6(octets)));
      }
    }
    ::freeaddrinfo(found);
    return addresses;
  }

  Result<std::vector<std::string>, NoAnswer> NamesOf(const IpAddress& address) override {
    // Unlike getnameinfo(), this returns all names.
    std::vector<char> memory(4096);
    for (;;) {
      hostent entry{};
      hostent* found = nullptr;
      int trouble = 0;
      int error = 0;
      if (address.is_v4()) {
        const auto octets = address.to_v4().to_bytes();
        error = ::gethostbyaddr_r(octets.data(), octets.size(), AF_INET, &entry, memory.data(), memory.size(), &found,
                                  &trouble);
      } else {
        const auto octets = address.to_v6().to_bytes();
        error = ::gethostbyaddr_r(octets.data(), octets.size(), AF_INET6, &entry, memory.data(), memory.size(), &found,
                                  &trouble);
      }
      if (error == ERANGE && memory.size() < (1 << 20)) {
        memory.resize(memory.size() * 4);
        continue;
      }
      if (found) return NamesIn(*found);
      if (trouble == TRY_AGAIN || trouble == NETDB_INTERNAL) return std::unexpected(NoAnswer{error ? error : EAGAIN});
      return std::vector<std::string>();
    }
  }

  bool IsInNetgroup(const std::string& group, const std::string& host) override {
    // innetgr() is not safe for several threads in every C library.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    return ::innetgr(group.c_str(), host.c_str(), nullptr, nullptr) != 0;
  }

 private:
  static std::vector<std::string> NamesIn(const hostent& entry) {
    std::vector<std::string> names{entry.h_name};
    for (char* const* alias = entry.h_aliases; alias && *alias; ++alias) names.emplace_back(*alias);
    return names;
  }
};

}  // namespace

HostDatabase& SystemHosts() {
  static System system;
  return system;
}

void HostNames::LookFor(const std::vector<ClientSpec>& specs) {
  Questions questions;
  for (const ClientSpec& each : specs) {
    if (!each.NeedsFacts()) continue;
    switch (each.kind()) {
      case ClientSpec::Kind::kHost:
        questions.hosts.insert(each.name());
        break;
      case ClientSpec::Kind::kNetgroup:
        questions.netgroups.insert(each.name());
        break;
      default:
        questions.names = true;
    }
  }
  const std::lock_guard lock(mutex_);
  if (questions == *questions_) return;
  questions_ = std::make_shared<const Questions>(std::move(questions));
  ++version_;
  std::erase_if(resolved_, [this](const auto& each) { return !questions_->hosts.contains(each.first); });
}

bool HostNames::Lacks(const IpAddress& address) {
  const IpAddress host = Unmapped(address);
  {
    const std::lock_guard lock(mutex_);
    if (questions_->empty()) return false;
    const auto found = known_.find(host);
    if (found == known_.end() || !found->second.facts || found->second.answers != version_) return true;
    if (found->second.until > now_() || found->second.under_way) return false;
    if (!pool_) return true;
    found->second.under_way = true;
  }
  Begin(host, {});
  return false;
}

void HostNames::Begin(const IpAddress& address, const ClientKey& client) {
  pool_->Post([this, address] { Keep(address, Ask(address)); }, client);
}

Task<> HostNames::Load(Loop* loop, IpAddress address, ClientKey client) {
  const IpAddress host = Unmapped(address);
  if (!loop || !pool_) {
    Keep(host, Ask(host));
    co_return;
  }
  struct Awaiter {
    HostNames& names;
    const IpAddress& host;
    const ClientKey& client;
    Loop* loop;

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> who) {
      HostNames& all = names;
      const IpAddress asked = host;
      const ClientKey sharer = client;
      bool begins = false;
      {
        // The answer may come, and this object may end, as soon as the lock is released.
        const std::lock_guard lock(all.mutex_);
        Entry& entry = all.known_[asked];
        entry.waiting.push_back({loop, who});
        begins = !std::exchange(entry.under_way, true);
      }
      if (begins) all.Begin(asked, sharer);
    }
    void await_resume() const {}
  };
  co_await Awaiter{*this, host, client, loop};
}

std::vector<IpAddress> HostNames::Resolve(const std::string& name, bool& complete) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = resolved_.find(name);
    if (found != resolved_.end() && found->second.until > now_()) return found->second.addresses;
  }
  auto addresses = database_.AddressesOf(name);
  const std::lock_guard lock(mutex_);
  Resolved& entry = resolved_[name];
  if (addresses) {
    entry.addresses = *std::move(addresses);
    // An operator may be about to add the name.
    entry.until = now_() + (entry.addresses.empty() ? settings_.again_after : settings_.known_for);
  } else {
    complete = false;
    entry.until = now_() + settings_.again_after;
  }
  return entry.addresses;
}

HostNames::Answers HostNames::Ask(const IpAddress& address) {
  Answers answers;
  std::shared_ptr<const Questions> questions;
  {
    const std::lock_guard lock(mutex_);
    questions = questions_;
    answers.version = version_;
  }
  for (const std::string& name : questions->hosts) {
    const auto addresses = Resolve(name, answers.complete);
    if (std::ranges::find(addresses, address) != addresses.end()) answers.facts.hosts.insert(name);
  }
  if (!questions->names && questions->netgroups.empty()) return answers;
  const auto names = database_.NamesOf(address);
  if (!names) {
    answers.complete = false;
    return answers;
  }
  for (const std::string& given : *names | std::views::take(kMostNames)) {
    const auto leads_to = database_.AddressesOf(given);
    if (!leads_to) answers.complete = false;
    if (leads_to && std::ranges::find(*leads_to, address) != leads_to->end()) {
      answers.facts.names.push_back(Lower(given));
    }
  }
  std::vector<std::string> members = answers.facts.names;
  members.push_back(address.to_string());
  for (const std::string& group : questions->netgroups) {
    const auto has = [&](const std::string& each) { return database_.IsInNetgroup(group, each); };
    if (std::ranges::any_of(members, has)) answers.facts.netgroups.insert(group);
  }
  return answers;
}

void HostNames::Keep(const IpAddress& address, Answers answers) {
  std::vector<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = now_();
    if (known_.size() >= settings_.hosts && !known_.contains(address)) {
      const auto idle = std::ranges::find_if(known_, [](const auto& each) { return !each.second.under_way; });
      if (idle != known_.end()) known_.erase(idle);
    }
    Entry& entry = known_[address];
    entry.under_way = false;
    if (!answers.complete) {
      if (told_.Allows(now)) {
        log::warn(
            "the names of the client {} cannot be looked up: exports by host name, pattern or netgroup admit it "
            "{}",
            address.to_string(), entry.facts ? "as before" : "only as far as they are known");
      }
      // What was known stays true until an answer says otherwise.
      if (entry.facts) {
        answers.facts.names.insert(answers.facts.names.end(), entry.facts->names.begin(), entry.facts->names.end());
        answers.facts.hosts.insert(entry.facts->hosts.begin(), entry.facts->hosts.end());
        answers.facts.netgroups.insert(entry.facts->netgroups.begin(), entry.facts->netgroups.end());
        std::ranges::sort(answers.facts.names);
        const auto repeated = std::ranges::unique(answers.facts.names);
        answers.facts.names.erase(repeated.begin(), repeated.end());
      }
    }
    entry.facts = std::make_shared<const HostFacts>(std::move(answers.facts));
    entry.answers = answers.version;
    entry.until = now + (answers.complete ? settings_.known_for : settings_.again_after);
    waiting.swap(entry.waiting);
  }
  for (const Waiting& each : waiting) each.loop->Post(each.who);
}

std::shared_ptr<const HostFacts> HostNames::Of(const IpAddress& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(Unmapped(address));
  return found == known_.end() ? nullptr : found->second.facts;
}

void HostNames::Forget() {
  const std::lock_guard lock(mutex_);
  resolved_.clear();
  ++version_;
}

Task<rpc::AcceptStatus> WithHostNames::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const IpAddress& host = context.peer.address.address();
  if (context.procedure != 0 && hosts_.Lacks(host)) {
    const ClientKey client = rpc::ClientKeyOf(context.peer);
    co_await hosts_.Load(context.peer.loop, host, client);
  }
  co_return co_await inner().Call(context, arguments, results);
}

}  // namespace penstock::nfs
