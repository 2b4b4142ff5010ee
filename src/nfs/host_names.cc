#include "nfs/host_names.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <condition_variable>
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
// How long a reload waits for the addresses of its host names.
constexpr Duration kPrepareAtMost = std::chrono::seconds(20);

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
  asks_.store(!questions_->empty(), std::memory_order_release);
  ++version_;
  std::erase_if(resolved_, [this](const auto& each) { return !questions_->hosts.contains(each.first); });
}

const HostNames::Entry* HostNames::Find(const IpAddress& address) const {
  for (const Entries* entries : {&recent_, &older_}) {
    if (const auto found = entries->find(address); found != entries->end()) return &found->second;
  }
  return nullptr;
}

HostNames::Entry& HostNames::Insert(const IpAddress& address) {
  if (const auto found = recent_.find(address); found != recent_.end()) return found->second;
  if (recent_.size() >= settings_.hosts / 2) older_ = std::exchange(recent_, {});
  Entry& entry = recent_[address];
  if (const auto found = older_.find(address); found != older_.end()) entry = found->second;
  return entry;
}

bool HostNames::Lacks(const IpAddress& address) {
  if (!asks_.load(std::memory_order_acquire)) return false;
  const IpAddress host = Unmapped(address);
  {
    const std::lock_guard lock(mutex_);
    if (questions_->empty()) return false;
    const Entry* const found = Find(host);
    const TimePoint now = now_();
    if (!found || found->answers != version_ || found->until + settings_.oldest < now) return true;
    if (found->until > now || under_way_.contains(host)) return false;
    if (!pool_) return true;
    under_way_.try_emplace(host);
  }
  Begin(host, {});
  return false;
}

bool HostNames::IsBusy() const {
  const std::lock_guard lock(mutex_);
  return under_way_.size() >= settings_.under_way_for_datagrams;
}

void HostNames::Prepare(const std::vector<ClientSpec>& specs) {
  if (!pool_) return;
  std::set<std::string> hosts;
  for (const ClientSpec& each : specs) {
    if (each.NeedsFacts() && each.kind() == ClientSpec::Kind::kHost) hosts.insert(each.name());
  }
  // Shared with look-ups that take longer than this waits.
  struct Progress {
    std::mutex mutex;
    std::condition_variable all;
    size_t left;
  };
  const auto progress = std::make_shared<Progress>();
  progress->left = hosts.size();
  for (const std::string& name : hosts) {
    pool_->Post([this, name, progress] {
      Answers answers;
      Resolve(name, answers);
      const std::lock_guard lock(progress->mutex);
      if (--progress->left == 0) progress->all.notify_all();
    });
  }
  std::unique_lock lock(progress->mutex);
  progress->all.wait_for(lock, kPrepareAtMost, [&] { return progress->left == 0; });
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
        const auto [entry, is_new] = all.under_way_.try_emplace(asked);
        entry->second.push_back({loop, who});
        begins = is_new;
      }
      if (begins) all.Begin(asked, sharer);
    }
    void await_resume() const {}
  };
  co_await Awaiter{*this, host, client, loop};
}

std::vector<IpAddress> HostNames::Resolve(const std::string& name, Answers& answers) {
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = now_();
    if (const auto found = resolved_.find(name); found != resolved_.end()) {
      Resolved& known = found->second;
      if (known.until > now) {
        if (known.knowledge == Knowledge::kNoAnswer) answers.complete = false;
        if (known.knowledge == Knowledge::kOld) answers.is_old = true;
        return known.addresses;
      }
      if (known.knowledge == Knowledge::kAnswered && known.answered + settings_.oldest >= now) {
        known.knowledge = Knowledge::kOld;
        known.until = now + settings_.again_after;
      }
    }
  }
  auto addresses = database_.AddressesOf(name);
  const std::lock_guard lock(mutex_);
  const TimePoint now = now_();
  Resolved& entry = resolved_[name];
  if (addresses) {
    entry.addresses = *std::move(addresses);
    entry.answered = now;
    entry.knowledge = Knowledge::kAnswered;
    // An operator may be about to add the name.
    entry.until = now + (entry.addresses.empty() ? settings_.again_after : settings_.known_for);
  } else {
    answers.complete = false;
    if (entry.answered + settings_.oldest < now) entry.addresses.clear();
    entry.knowledge = Knowledge::kNoAnswer;
    entry.until = now + settings_.again_after;
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
    const auto addresses = Resolve(name, answers);
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
    const Entry* const found = Find(address);
    const std::shared_ptr<const HostFacts> before = found ? found->facts : nullptr;
    HostFacts& facts = answers.facts;
    facts.complete = answers.complete;
    if (!answers.complete) {
      if (told_.Allows(now)) {
        log::warn(
            "the names of the client {} cannot be looked up: exports that name clients by host name, pattern or "
            "netgroup admit it {}",
            address.to_string(), before ? "as before" : "only by its address");
      }
      // What was known stays true until an answer says otherwise.
      if (before) {
        facts.names.insert(facts.names.end(), before->names.begin(), before->names.end());
        facts.hosts.insert(before->hosts.begin(), before->hosts.end());
        facts.netgroups.insert(before->netgroups.begin(), before->netgroups.end());
        std::ranges::sort(facts.names);
        const auto repeated = std::ranges::unique(facts.names);
        facts.names.erase(repeated.begin(), repeated.end());
        facts.complete = before->complete && found->answers == answers.version;
      }
    }
    Entry& entry = Insert(address);
    entry.facts = std::make_shared<const HostFacts>(std::move(facts));
    entry.answers = answers.version;
    entry.until = now + (answers.complete && !answers.is_old ? settings_.known_for : settings_.again_after);
    if (const auto asked = under_way_.find(address); asked != under_way_.end()) {
      waiting = std::move(asked->second);
      under_way_.erase(asked);
    }
  }
  for (const Waiting& each : waiting) each.loop->Post(each.who);
}

std::shared_ptr<const HostFacts> HostNames::Of(const IpAddress& address) const {
  const std::lock_guard lock(mutex_);
  const Entry* const found = Find(Unmapped(address));
  return found ? found->facts : nullptr;
}

Task<rpc::AcceptStatus> WithHostNames::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  if (context.procedure == 0 || !hosts_.Lacks(context.peer.address.address())) {
    return inner().Call(context, arguments, results);
  }
  return LoadAndCall(context, arguments, results);
}

Task<rpc::AcceptStatus> WithHostNames::LoadAndCall(rpc::CallContext& context, xdr::Decoder& arguments,
                                                   xdr::Encoder& results) {
  const IpAddress& host = context.peer.address.address();
  // Once more if a reload has asked other questions meanwhile.
  while (hosts_.Lacks(host)) {
    if (context.peer.transport == rpc::TransportKind::kUdp && hosts_.IsBusy()) {
      context.no_reply = true;  // the client sends it again
      co_return rpc::AcceptStatus::SUCCESS;
    }
    const ClientKey client = rpc::ClientKeyOf(context.peer);
    co_await hosts_.Load(context.peer.loop, host, client);
  }
  co_return co_await inner().Call(context, arguments, results);
}

}  // namespace penstock::nfs
