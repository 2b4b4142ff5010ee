// For tests: programs behind a dispatcher, which receive encoded calls as from a transport.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/buffer.h"
#include "base/task.h"
#include "fs/memory/file_system.h"
#include "fs/test_files.h"
#include "nfs/exports.h"
#include "nfs/mount/program.h"
#include "nfs/test_initiator.h"
#include "nfs/v3/program.h"
#include "protocol/nfs3.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs {

// Runs a task that waits for no external event.
template <class T>
T Now(Task<T> task) {
  std::optional<T> result;
  Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> { to.emplace(co_await std::move(inner)); }(std::move(task),
                                                                                                     result));
  assert(result);
  return std::move(*result);
}

// A clock that the test advances.
class StoppedClock : public TimerService {
 public:
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

// A decoded reply, with or without results.
struct Answer {
  rpc::Message message;
  rpc::ReplyHeader header;
  size_t results_at = 0;

  bool succeeded() const {
    return header.body.is_areply() && header.body.areply().reply_data.discriminant() == rpc::AcceptStatus::SUCCESS;
  }
  rpc::AcceptStatus accept_status() const { return header.body.areply().reply_data.discriminant(); }
  rpc::AuthStatus auth_status() const { return header.body.rreply().why(); }
};

class TestServer {
 public:
  explicit TestServer(v3::Settings with = {.max_read = 4096, .max_write = 4096, .max_directory = 4096},
                      mount::Versions mount_versions = mount::Versions::kThree)
      : settings(with), mount(exports, mount_versions) {
    peer.address = {asio::ip::make_address("192.0.2.1"), 700};
    peer.buffers = &buffers;
    SetIdentity({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
  }

  // Exports a new file system whose clock ticks once a second. Call it before the first call. `faults` makes the file
  // system of the last export fail.
  fs::memory::FileSystem& Export(std::string_view path, ExportOptions options = {.squash = Squash::kNone},
                                 const std::vector<ClientSpec>& clients = {}) {
    auto ticks = std::make_shared<int64_t>(1'000'000);
    auto file_system = std::make_shared<fs::memory::FileSystem>(
        fs::memory::Options{.instance = ++instances_, .clock = [ticks] { return fs::Timestamp{++*ticks, 5}; }});
    faults = std::make_shared<fs::TestFiles>(file_system);
    const auto added = exports.Add(path, faults, std::move(options), clients);
    assert(added);
    (void)added;
    return *file_system;
  }
  nfs3::nfs_fh3 RootOf(std::string_view path) const {
    const auto place = exports.table().Resolve(path);
    return {.data = xdr::Opaque<64>(EncodedHandle(place.found->root()).bytes())};
  }

  // Sets the caller of the next calls.
  void SetIdentity(const rpc::SystemIdentity& identity) {
    credential_ = rpc::ClientCredential(identity);
    secured.reset();
  }
  void SetUser(uint32_t uid) { SetIdentity({.machine = "client", .uid = uid, .gid = uid, .groups = {}}); }
  void SetNoIdentity() {
    credential_ = rpc::ClientCredential();
    secured.reset();
  }
  // Must outlive its calls.
  void SetInitiator(const TestInitiator& who, rpc::GssService service) { secured = who.With(service); }

  template <class Arguments>
  rpc::Message Encode(rpc::Xid xid, uint32_t program, uint32_t version, uint32_t procedure,
                      const Arguments& arguments) {
    xdr::Encoder encoder(buffers);
    rpc::EncodeCallHeader(encoder, {xid, program, version, procedure, credential_.auth(), {}});
    xdr::Encode(encoder, arguments);
    return encoder.Finish();
  }
  template <class Procedure>
  rpc::Message EncodeCall(const typename Procedure::Arguments& arguments) {
    return Encode(rpc::Xid(++last_xid), Procedure::kProgram, Procedure::kVersion, Procedure::kNumber, arguments);
  }

  Answer Ask(rpc::Message call) {
    Answer answer{.message = Now(dispatcher.HandleCall(std::move(call), peer)), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    answer.results_at = decoder.reduced_position();
    return answer;
  }

  template <class Procedure>
  typename Procedure::Results ResultsOf(Answer answer) {
    EXPECT_TRUE(answer.succeeded());
    const Answer& kept = answers_.emplace_back(std::move(answer));
    xdr::Decoder decoder(kept.message);
    rpc::ReplyHeader header;
    typename Procedure::Results results{};
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, results) && decoder.Finish())
        << Procedure::kName << ": " << xdr::ErrorName(decoder.error());
    return results;
  }

  // Views in the results are valid as long as the server lives.
  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    return ResultsOf<Procedure>(Ask(EncodeCall<Procedure>(arguments)));
  }

  BufferPool buffers;
  Exports exports;
  const v3::Settings settings;
  v3::Program nfs{exports, settings};
  mount::Program mount;
  StoppedClock clock;
  rpc::ReplyCache cache;
  std::optional<rpc::Credential> secured;  // replaces the credential of calls
  CalledBy secured_nfs{nfs, secured}, secured_mount{mount, secured};
  std::shared_ptr<fs::TestFiles> faults;
  rpc::Dispatcher dispatcher = MakeDispatcher();
  rpc::Peer peer;
  uint32_t last_xid = 0;

 private:
  rpc::Dispatcher MakeDispatcher() {
    rpc::Dispatcher made(cache, clock);
    made.Add(secured_nfs);
    made.Add(secured_mount);
    return made;
  }

  uint64_t instances_ = 0;
  rpc::ClientCredential credential_;
  std::deque<Answer> answers_;
};

}  // namespace penstock::nfs
