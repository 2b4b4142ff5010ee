#include "nfs/v4/operations/copy.h"

#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/operations/copy_test.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

class CopyTest : public Nfs4Test {
 protected:
  static COPY4args Args(uint64_t from, uint64_t to, uint64_t count) { return CopyArguments(from, to, count); }
  template <class Arguments>
  CompoundReply RunOn(const nfs_fh4& from, const nfs_fh4& to, nfs_opnum4 number, const Arguments& arguments) {
    return Run(PutFh(from), SaveFh(), PutFh(to), Op(number, arguments));
  }
  nfsstat4 CopyStatus(const nfs_fh4& from, const nfs_fh4& to, const COPY4args& arguments) {
    return RunOn(from, to, OP_COPY, arguments).status;
  }
  COPY4resok CopyOk(const nfs_fh4& from, const nfs_fh4& to, const COPY4args& arguments) {
    auto reply = RunOn(from, to, OP_COPY, arguments);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip(3).Next<COPY4res>().cr_resok4();
  }
  nfs_fh4 MakeLong(std::string_view name, uint64_t size) {
    const nfs_fh4 file = MakeFile(name, "begin");
    fs::NewAttributes values;
    values.size = size;
    const fs::Handle found = Now(tree.Lookup(AsRoot(), tree.Root(), name)).result->handle;
    EXPECT_TRUE(Now(tree.SetAttributes(AsRoot(), found, values, {})).result);
    return file;
  }
};

TEST_F(CopyTest, CopiesTheRangeSynchronously) {
  const nfs_fh4 from = MakeFile("from", "0123456789");
  const nfs_fh4 to = MakeFile("to", "abcdefgh");
  const COPY4resok copied = CopyOk(from, to, Args(2, 4, 5));
  EXPECT_EQ(ContentsOf("to"), "abcd23456");
  EXPECT_EQ(copied.cr_response.wr_count, 5u);
  EXPECT_FALSE(copied.cr_response.wr_callback_id);
  EXPECT_TRUE(copied.cr_requirements.cr_consecutive && copied.cr_requirements.cr_synchronous);
}

TEST_F(CopyTest, CountOfZeroCopiesToTheEnd) {
  EXPECT_EQ(CopyOk(MakeFile("from", "0123456789"), MakeFile("to"), Args(3, 0, 0)).cr_response.wr_count, 7u);
  EXPECT_EQ(ContentsOf("to"), "3456789");
}

TEST_F(CopyTest, ReturnsTheWriteVerifier) {
  const nfs_fh4 to = MakeFile("to");
  const auto copied = CopyOk(MakeFile("from", "0123456789"), to, Args(0, 0, 10));
  auto reply = Run(PutFh(to), Op(OP_COMMIT, COMMIT4args{0, 0}));
  EXPECT_EQ(reply.Skip().Next<COMMIT4res>().resok4().writeverf, copied.cr_response.wr_writeverf);
}

TEST_F(CopyTest, RejectsARangeBeyondTheSource) {
  const nfs_fh4 from = MakeFile("from", "0123456789");
  const nfs_fh4 to = MakeFile("to");
  EXPECT_EQ(CopyStatus(from, to, Args(11, 0, 0)), NFS4ERR_INVAL);
  EXPECT_EQ(CopyStatus(from, to, Args(5, 0, 6)), NFS4ERR_INVAL);
  EXPECT_EQ(CopyStatus(from, to, Args(UINT64_MAX, 0, UINT64_MAX)), NFS4ERR_INVAL);
  EXPECT_EQ(CopyOk(from, to, Args(10, 0, 0)).cr_response.wr_count, 0u);
}

TEST_F(CopyTest, RejectsCopyingAFileToItself) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(CopyStatus(file, file, Args(0, 5, 5)), NFS4ERR_INVAL);
  EXPECT_EQ(CopyStatus(Root(), file, Args(0, 0, 0)), NFS4ERR_WRONG_TYPE);
  EXPECT_EQ(CopyStatus(file, Root(), Args(0, 0, 0)), NFS4ERR_WRONG_TYPE);
  EXPECT_EQ(CopyStatus(file, MakeSymlink("link", "x"), Args(0, 0, 0)), NFS4ERR_WRONG_TYPE);
}

TEST_F(CopyTest, RequiresPermissionForBothFiles) {
  const nfs_fh4 closed = MakeFile("closed", "0123456789", 0600);
  const nfs_fh4 read = MakeFile("read", "0123456789", 0644);
  const nfs_fh4 write = MakeFile("write", "", 0666);
  Client();
  server.SetUser(1000);
  EXPECT_EQ(CopyStatus(closed, write, Args(0, 0, 5)), NFS4ERR_ACCESS);
  EXPECT_EQ(CopyStatus(read, closed, Args(0, 0, 5)), NFS4ERR_ACCESS);
  EXPECT_EQ(CopyOk(read, write, Args(0, 0, 5)).cr_response.wr_count, 5u);
}

TEST_F(CopyTest, ChecksBothStateids) {
  const nfs_fh4 from = MakeFile("from", "0123456789");
  const nfs_fh4 to = MakeFile("to");
  COPY4args arguments = Args(0, 0, 5);
  arguments.ca_src_stateid = {.seqid = 1, .other = {std::byte{1}}};
  EXPECT_EQ(CopyStatus(from, to, arguments), NFS4ERR_BAD_STATEID);
  std::swap(arguments.ca_src_stateid, arguments.ca_dst_stateid);
  EXPECT_EQ(CopyStatus(from, to, arguments), NFS4ERR_BAD_STATEID);
}

TEST_F(CopyTest, DoesNotSupportCopiesFromAnotherServer) {
  COPY4args arguments = Args(0, 0, 5);
  arguments.ca_source_server.push_back(netloc4(NL4_NAME, utf8str_cis("server")));
  EXPECT_EQ(CopyStatus(MakeFile("from", "0123456789"), MakeFile("to"), arguments), NFS4ERR_NOTSUPP);
}

TEST_F(CopyTest, CopiesBetweenFileSystems) {
  fs::memory::FileSystem& other = server.Export("/other");
  const fs::Handle made = Now(other.Create(AsRoot(), other.Root(), "to", {})).result->handle;
  const nfs_fh4 to = ToFileHandle({server.exports.table().Resolve("/other").found->id(), made});
  const uint64_t size = 3 << 20;
  EXPECT_EQ(CopyOk(MakeLong("from", size), to, Args(0, 0, 0)).cr_response.wr_count, size);
  EXPECT_EQ(Now(other.GetAttributes(AsRoot(), made))->size, size);
  EXPECT_EQ(AsText(Now(other.Read(AsRoot(), made, 0, 5)).result->data.bytes()), "begin");
}

TEST_F(CopyTest, WritesNothingIfTheSourceCannotBeRead) {
  const auto source = server.faults;
  fs::memory::FileSystem& other = server.Export("/other");
  const nfs_fh4 from = MakeFile("from", "0123456789");
  source->Add({.operation = fs::faulty::Operation::kCopy, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(CopyStatus(from, MakeFile("to"), Args(0, 0, 10)), NFS4ERR_IO);
  const fs::Handle made = Now(other.Create(AsRoot(), other.Root(), "to", {})).result->handle;
  const nfs_fh4 to = ToFileHandle({server.exports.table().Resolve("/other").found->id(), made});
  source->Add({.effect = fs::faulty::Unreadable()});
  EXPECT_EQ(CopyStatus(from, to, Args(0, 0, 10)), NFS4ERR_IO);
  EXPECT_EQ(Now(other.GetAttributes(AsRoot(), made))->size, 0u);
}

TEST_F(CopyTest, ReturnsAShortCopyIfTheClientCannotBeNotified) {
  COPY4args arguments = Args(0, 0, 0);
  arguments.ca_synchronous = false;
  const COPY4resok copied = CopyOk(MakeLong("from", 100 << 20), MakeFile("to"), arguments);
  EXPECT_EQ(copied.cr_response.wr_count, 32u << 20);
  EXPECT_TRUE(copied.cr_requirements.cr_synchronous);
  EXPECT_FALSE(copied.cr_response.wr_callback_id);
}

// A client with a backchannel, to which the server reports the end of a copy.
class OffloadTest : public CopyTest {
 protected:
  OffloadTest() { GiveBackChannel(server, Client().session()); }
  static constexpr uint64_t kSize = 100 << 20;
  stateid4 StartCopy(const nfs_fh4& from, const nfs_fh4& to) {
    COPY4args arguments = Args(0, 0, 0);
    arguments.ca_synchronous = false;
    const COPY4resok begun = CopyOk(from, to, arguments);
    EXPECT_TRUE(begun.cr_requirements.cr_consecutive);
    EXPECT_FALSE(begun.cr_requirements.cr_synchronous);
    EXPECT_EQ(begun.cr_response.wr_count, 0u);
    EXPECT_TRUE(begun.cr_response.wr_callback_id);
    return begun.cr_response.wr_callback_id.value_or(stateid4{});
  }
};

TEST_F(OffloadTest, ContinuesALongCopyAndReportsItsEnd) {
  const nfs_fh4 to = MakeFile("to");
  const stateid4 copy = StartCopy(MakeLong("from", kSize), to);
  ASSERT_EQ(server.callbacks.copies.size(), 1u);
  const auto& done = server.callbacks.copies.front();
  EXPECT_EQ(done.client, Client().client());
  EXPECT_EQ(done.copy, copy);
  EXPECT_EQ(ToFileHandle(done.file).bytes().size(), to.bytes().size());
  ASSERT_EQ(done.information.coa_status(), NFS4_OK);
  EXPECT_EQ(done.information.coa_resok4().wr_count, kSize);
  EXPECT_FALSE(done.information.coa_resok4().wr_callback_id) << "RFC 7862 §16.1.3: CB_OFFLOAD has no callback ID";
  EXPECT_EQ(AttributesOf("to")->size, kSize);
}

TEST_F(OffloadTest, ReturnsTheStatusOfACopy) {
  const nfs_fh4 to = MakeFile("to");
  const stateid4 copy = StartCopy(MakeLong("from", kSize), to);
  auto reply = Run(PutFh(to), Op(OP_OFFLOAD_STATUS, OFFLOAD_STATUS4args{copy}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(reply.Skip().Next<OFFLOAD_STATUS4res>().osr_resok4(), (OFFLOAD_STATUS4resok{kSize, NFS4_OK}));
}

TEST_F(OffloadTest, RejectsAnUnknownCopy) {
  const nfs_fh4 to = MakeFile("to");
  const stateid4 copy = StartCopy(MakeLong("from", kSize), to);
  const auto status = [&](const nfs_fh4& file, const stateid4& id) {
    return Run(PutFh(file), Op(OP_OFFLOAD_STATUS, OFFLOAD_STATUS4args{id})).status;
  };
  EXPECT_EQ(status(to, kAnonymous), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(status(Root(), copy), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(to), Op(OP_OFFLOAD_CANCEL, OFFLOAD_CANCEL4args{copy})).status, NFS4_OK);
  EXPECT_EQ(status(to, copy), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(to), Op(OP_OFFLOAD_CANCEL, OFFLOAD_CANCEL4args{copy})).status, NFS4ERR_BAD_STATEID);
}

TEST_F(OffloadTest, ObeysARequestForASynchronousCopy) {
  const COPY4resok copied = CopyOk(MakeLong("from", kSize), MakeFile("to"), Args(0, 0, 0));
  EXPECT_TRUE(copied.cr_requirements.cr_synchronous);
  EXPECT_EQ(copied.cr_response.wr_count, 32u << 20);
}

// --- CLONE

// A timer service whose timer expires when the test calls Expire().
class ManualTimers : public TimerService {
 public:
  TimePoint Now() const override { return {}; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override {
    expire_ = std::move(on_expiry);
    return std::make_unique<None>();
  }
  void Expire() { std::exchange(expire_, {})(); }

 private:
  std::function<void()> expire_;
  struct None : Timer {
    void ExpireAfter(Duration) override {}
    void Cancel() override {}
  };
};

TEST_F(OffloadTest, StoppingTheServerWaitsForCopies) {
  const auto running = server.state.Run(
      [&](StateTables& state) { return state.offloads.Start(Client().client(), {}, 1, server.clock.Now()); });
  ManualTimers timers;
  bool stopped = false;
  Spawn([](State& state, ManualTimers& waiting, bool& done) -> Task<> {
    co_await EndCopies(state, waiting);
    done = true;
  }(server.state, timers, stopped));
  EXPECT_EQ(server.state.Run([&](StateTables& state) { return state.offloads.Advance(*running, 1); }),
            Offloads::Order::kEnd);
  timers.Expire();
  EXPECT_FALSE(stopped);
  server.state.Run([&](StateTables& state) { state.offloads.Leave(*running); });
  timers.Expire();
  EXPECT_TRUE(stopped);
}

TEST_F(OffloadTest, AServerThatStopsStartsNoCopy) {
  Spawn(EndCopies(server.state, server.clock));
  COPY4args arguments = Args(0, 0, 0);
  arguments.ca_synchronous = false;
  EXPECT_TRUE(CopyOk(MakeLong("from", kSize), MakeFile("to"), arguments).cr_requirements.cr_synchronous);
  EXPECT_EQ(server.state.Run([&](StateTables& state) { return state.offloads.running(); }), 0u);
}

TEST_F(OffloadTest, StoppingTheServerDoesNotWaitForEndedCopies) {
  StartCopy(MakeLong("from", kSize), MakeFile("to"));
  EXPECT_EQ(server.state.Run([&](StateTables& state) { return state.offloads.running(); }), 0u);
}

class CloneTest : public CopyTest {
 protected:
  nfsstat4 Clone(const nfs_fh4& from, const nfs_fh4& to, uint64_t from_offset, uint64_t to_offset, uint64_t count) {
    return RunOn(from, to, OP_CLONE, CLONE4args{kAnonymous, kAnonymous, from_offset, to_offset, count}).status;
  }
};

TEST_F(CloneTest, ClonesTheRange) {
  const nfs_fh4 from = MakeFile("from", std::string(4096, 'a') + std::string(4096, 'b') + "c");
  const nfs_fh4 to = MakeFile("to");
  EXPECT_EQ(Clone(from, to, 4096, 0, 0), NFS4_OK);
  EXPECT_EQ(ContentsOf("to"), std::string(4096, 'b') + "c");
  EXPECT_EQ(Clone(from, to, 0, 4096, 4096), NFS4_OK);
  EXPECT_EQ(ContentsOf("to"), std::string(4096, 'b') + std::string(4096, 'a'));
}

TEST_F(CloneTest, ChecksBlockAlignmentAndRange) {
  const nfs_fh4 from = MakeFile("from", std::string(8192, 'a'));
  const nfs_fh4 to = MakeFile("to");
  EXPECT_EQ(Clone(from, to, 1, 0, 4096), NFS4ERR_INVAL);
  EXPECT_EQ(Clone(from, to, 0, 1, 4096), NFS4ERR_INVAL);
  EXPECT_EQ(Clone(from, to, 0, 0, 4097), NFS4ERR_INVAL);
  EXPECT_EQ(Clone(from, to, 4096, 0, 8192), NFS4ERR_INVAL);
  EXPECT_EQ(Clone(from, from, 0, 4096, 8192), NFS4ERR_INVAL);
  EXPECT_EQ(Clone(from, from, 0, 4096, 4096), NFS4_OK);
  EXPECT_EQ(Clone(from, Root(), 0, 0, 0), NFS4ERR_WRONG_TYPE);
  EXPECT_EQ(Clone(Root(), to, 0, 0, 0), NFS4ERR_WRONG_TYPE);
}

TEST_F(CloneTest, RejectsCloningBetweenFileSystems) {
  fs::memory::FileSystem& other = server.Export("/other");
  const fs::Handle made = Now(other.Create(AsRoot(), other.Root(), "to", {})).result->handle;
  const nfs_fh4 to = ToFileHandle({server.exports.table().Resolve("/other").found->id(), made});
  EXPECT_EQ(Clone(MakeFile("from", "text"), to, 0, 0, 0), NFS4ERR_XDEV);
}

}  // namespace
}  // namespace penstock::nfs::v4
