// For tests: an rpcbind that listens at a local socket and behaves as rpcbind(8) does.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/data.h"
#include "protocol/rpcb.h"
#include "rpc/dispatch.h"
#include "rpc/handle.h"

namespace penstock::rpcbind {

struct FakeEntry {
  uint32_t program = 0;
  uint32_t version = 0;
  std::string netid;
  std::string address;
  std::string owner = "superuser";
  bool operator==(const FakeEntry&) const = default;
};

// The table of an rpcbind as a program. Thread-safe.
class FakeTable final : public rpc::Program {
 public:
  explicit FakeTable(uint32_t highest_version) : highest_(highest_version) {}

  uint32_t number() const override { return pmap::PMAP_PROG; }
  rpc::VersionRange versions() const override { return {3, highest_}; }
  rpc::Classification Classify(rpc::CallContext&, xdr::Decoder&) const override { return {}; }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    using namespace pmap;  // NOLINT: the protocol's own names
    std::lock_guard lock(mutex_);
    ++calls_;
    switch (context.procedure) {
      case RPCBPROC_SET::kNumber:
        return rpc::Handle<RPCBPROC_SET>(context, arguments, results,
                                         [this](auto&, pmap::rpcb& entry) { return Set(entry); });
      case RPCBPROC_UNSET::kNumber:
        return rpc::Handle<RPCBPROC_UNSET>(context, arguments, results,
                                           [this](auto&, pmap::rpcb& entry) { return Unset(entry); });
      case RPCBPROC_DUMP::kNumber:
        return rpc::Handle<RPCBPROC_DUMP>(context, arguments, results, [this](auto&, auto&) {
          rpcblist list;
          for (const FakeEntry& each : entries_) {
            list.push_back({{each.program, each.version, each.netid, each.address, each.owner}});
          }
          return list;
        });
      default:
        return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
    }
  }

  void Add(FakeEntry entry) {
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
  }
  // Sorted.
  std::vector<FakeEntry> entries() const {
    std::lock_guard lock(mutex_);
    auto sorted = entries_;
    std::ranges::sort(sorted, {}, [](const FakeEntry& each) {
      return std::tuple(each.program, each.version, each.netid, each.address);
    });
    return sorted;
  }
  size_t calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  void set_refuses(bool refuses) {
    std::lock_guard lock(mutex_);
    refuses_ = refuses;
  }

 private:
  auto Find(const pmap::rpcb& entry) {
    return std::ranges::find_if(entries_, [&](const FakeEntry& each) {
      return each.program == entry.r_prog && each.version == entry.r_vers && each.netid == entry.r_netid;
    });
  }
  bool Set(const pmap::rpcb& entry) {
    if (const auto known = Find(entry); known != entries_.end()) return known->address == entry.r_addr;
    if (refuses_) return false;
    entries_.push_back({entry.r_prog, entry.r_vers, std::string(entry.r_netid), std::string(entry.r_addr)});
    return true;
  }
  // Ignores the address, as rpcbind does.
  bool Unset(const pmap::rpcb& entry) {
    const auto known = Find(entry);
    if (known == entries_.end()) return false;
    entries_.erase(known);
    return true;
  }

  const uint32_t highest_;
  mutable std::mutex mutex_;
  std::vector<FakeEntry> entries_;
  size_t calls_ = 0;
  bool refuses_ = false;
};

// Serves a program at a local socket, one connection after the other, on a thread of its own.
class LocalServer {
 public:
  LocalServer(std::string path, rpc::Program& program)
      : path_(std::move(path)), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    dispatcher_.Add(program);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~LocalServer() {
    ended_ = true;
    thread_.join();
    ::unlink(path_.c_str());
  }

 private:
  static constexpr int kLook = 5;  // milliseconds

  void Run() {
    peer_.buffers = &buffers_;
    while (!ended_) {
      if (!IsReadable(listener_)) continue;
      const FileDescriptor connection(::accept(listener_.get(), nullptr, nullptr));
      while (!ended_ && (!IsReadable(connection) || ServeOne(connection))) {
      }
    }
  }
  static bool IsReadable(const FileDescriptor& socket) {
    pollfd ready{.fd = socket.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, kLook) > 0;
  }
  // Returns false at the end of the connection. Records have one fragment.
  bool ServeOne(const FileDescriptor& connection) {
    std::byte header[4];
    if (::recv(connection.get(), header, 4, MSG_WAITALL) != 4) return false;
    const size_t size = LoadBig<uint32_t>(header) & 0x7fff'ffff;
    BufferRef room = buffers_.Allocate(size);
    if (::recv(connection.get(), room->data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return false;
    const ConstBytes octets = ConstBytes(room->bytes()).first(size);
    std::optional<rpc::Message> reply;
    Spawn([](LocalServer& self, rpc::Message call, std::optional<rpc::Message>& out) -> Task<void> {
      out.emplace(co_await self.dispatcher_.HandleCall(std::move(call), self.peer_));
    }(*this, rpc::Message::Whole(Slice(std::move(room), octets)), reply));
    const ConstBytes stream = reply->stream.bytes();
    StoreBig<uint32_t>(header, 0x8000'0000 | static_cast<uint32_t>(stream.size()));
    return ::send(connection.get(), header, 4, MSG_NOSIGNAL) == 4 &&
           ::send(connection.get(), stream.data(), stream.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(stream.size());
  }

  const std::string path_;
  const FileDescriptor listener_;
  BufferPool buffers_;
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace penstock::rpcbind
