// Exports with refer= and replicas= (RFC 8881 §11.3, §11.4, §11.15 to §11.17; RFC 7530 §8).
#include "nfs/absent_file_system.h"
#include "nfs/v4/attributes/attribute_values.h"
#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;

class ReferralTest : public Nfs4Test {
 protected:
  ReferralTest() {
    AddReferral("/far", "/srv/a@one+192.0.2.7:/@two");
    MakeDirectory("far");
    MakeFile("near", "here");
  }

  void AddReferral(std::string_view path, std::string_view locations) {
    ExportOptions options;
    options.locations = {.referral = true, .list = *ParseLocations(locations)};
    EXPECT_TRUE(server.exports.Add(path, std::make_shared<AbsentFileSystem>(), std::move(options)));
  }
  nfs_fh4 Far() { return ToFileHandle(server.exports.table().Resolve("/far").found->root()); }

  // Decodes the attributes that a client of minor version 0 gets.
  template <class Check>
  void WithFar(const AttributeSet& wanted, const AttributeSet& expected, Check check) {
    auto reply = Run0(PutRoot(), LookUp("far"), GetAttr(wanted));
    ASSERT_EQ(reply.status, NFS4_OK);
    const fattr4 got = reply.Skip(2).Next<GETATTR4res>().resok4().obj_attributes;
    EXPECT_EQ(AttributeSet(got.attrmask), expected);
    const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(got.attr_vals.bytes()));
    xdr::Decoder decoder(message);
    check(decoder);
    EXPECT_TRUE(decoder.Finish());
  }
};
class ReplicasTest : public testing::Test {};

std::vector<std::string> Components(const pathname4& path) {
  std::vector<std::string> components;
  for (const auto& component : path) components.emplace_back(component);
  return components;
}

TEST_F(ReferralTest, LookupReachesTheRootButNoFilehandleComesOut) {
  EXPECT_EQ(Run0(PutRoot(), LookUp("far")).status, NFS4_OK);
  auto reply = Run0(PutRoot(), LookUp("far"), GetFh());
  EXPECT_EQ(reply.status, NFS4ERR_MOVED);
  EXPECT_EQ(reply.count, 3u);
}

TEST_F(ReferralTest, OperationsInTheAbsentFileSystemAreMoved) {
  EXPECT_EQ(Run0(PutFh(Far())).status, NFS4_OK);
  EXPECT_EQ(Run0(PutFh(Far()), LookUp("x")).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), LookUpParent()).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), SaveFh()).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), Op(OP_ACCESS, ACCESS4args{ACCESS4_READ})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, {}})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), Op(OP_REMOVE, REMOVE4args{"x"})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run(PutFh(Far()), GetFh()).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), PutRoot(), GetFh()).status, NFS4_OK);
  EXPECT_EQ(Run0(PutRoot(), Op(OP_SECINFO, SECINFO4args{"far"})).status, NFS4_OK);
  EXPECT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"far"})).status, NFS4ERR_ACCESS);
}

// The export may have served a file system before, whose handles clients have.
TEST_F(ReferralTest, EveryHandleOfTheExportIsInTheAbsentFileSystem) {
  FileHandle handle = server.exports.table().Resolve("/far").found->root();
  handle.object = Now(tree.Lookup(AsRoot(), tree.Root(), "near")).result->handle;
  ASSERT_NE(handle.object, server.exports.table().Resolve("/far").found->file_system().Root());
  const nfs_fh4 near = ToFileHandle(handle);
  EXPECT_EQ(Run0(PutFh(near), Op(OP_READ, READ4args{{}, 0, 10})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(near), GetAttr({FATTR4_TYPE})).status, NFS4ERR_MOVED);
  auto reply = Run0(PutFh(near), GetAttr({FATTR4_FS_LOCATIONS}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(AttributeSet(reply.Skip().Next<GETATTR4res>().resok4().obj_attributes.attrmask),
            AttributeSet{FATTR4_FS_LOCATIONS});
}

TEST_F(ReferralTest, GetattrNeedsAnAttributeOfLocations) {
  EXPECT_EQ(Run0(PutFh(Far()), GetAttr({FATTR4_FSID, FATTR4_TYPE})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run0(PutFh(Far()), GetAttr({FATTR4_FSID, FATTR4_FS_LOCATIONS_INFO})).status, NFS4ERR_MOVED);
  EXPECT_EQ(Run(PutFh(Far()), GetAttr({FATTR4_FSID, FATTR4_FS_LOCATIONS_INFO})).status, NFS4_OK);
}

TEST_F(ReferralTest, GetattrReturnsTheLocationsAndFewOtherAttributes) {
  const AttributeSet wanted{FATTR4_TYPE,   FATTR4_SIZE,         FATTR4_FSID,
                            FATTR4_MODE,   FATTR4_FS_LOCATIONS, FATTR4_SUPPORTED_ATTRS,
                            FATTR4_FILEID, FATTR4_FILEHANDLE,   FATTR4_MOUNTED_ON_FILEID};
  const uint64_t covered = Now(tree.Lookup(AsRoot(), tree.Root(), "far")).result->attributes.fileid;
  WithFar(wanted, {FATTR4_FSID, FATTR4_FS_LOCATIONS, FATTR4_MOUNTED_ON_FILEID}, [&](xdr::Decoder& values) {
    fsid4 fsid;
    fs_locations4 locations;
    uint64_t mounted_on = 0;
    ASSERT_TRUE(xdr::Decode(values, fsid) && xdr::Decode(values, locations) && values.U64(mounted_on));
    EXPECT_EQ(fsid.major, server.exports.table().Resolve("/far").found->id().value());
    EXPECT_NE(fsid.major, server.exports.table().Resolve("/").found->id().value());
    EXPECT_EQ(mounted_on, covered);
    EXPECT_THAT(Components(locations.fs_root), ElementsAre("far"));
    ASSERT_EQ(locations.locations.size(), 2u);
    EXPECT_THAT(locations.locations[0].server, ElementsAre("one", "192.0.2.7"));
    EXPECT_THAT(Components(locations.locations[0].rootpath), ElementsAre("srv", "a"));
    EXPECT_THAT(locations.locations[1].server, ElementsAre("two"));
    EXPECT_THAT(Components(locations.locations[1].rootpath), ElementsAre());
  });
}

TEST_F(ReferralTest, LocationsInfoClaimsNothingOfOtherServers) {
  auto reply = Run(PutFh(Far()), GetAttr({FATTR4_FS_LOCATIONS_INFO}));
  const fattr4 got = reply.Skip().Next<GETATTR4res>().resok4().obj_attributes;
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(got.attr_vals.bytes()));
  xdr::Decoder decoder(message);
  fs_locations_info4 info;
  ASSERT_TRUE(xdr::Decode(decoder, info) && decoder.Finish());
  EXPECT_EQ(info.fli_flags, 0u);
  EXPECT_EQ(info.fli_valid_for, 0);
  EXPECT_THAT(Components(info.fli_fs_root), ElementsAre("far"));
  ASSERT_EQ(info.fli_items.size(), 2u);
  ASSERT_EQ(info.fli_items[0].fli_entries.size(), 2u);
  EXPECT_THAT(Components(info.fli_items[0].fli_rootpath), ElementsAre("srv", "a"));
  const fs_locations_server4 second = info.fli_items[0].fli_entries[1];
  EXPECT_EQ(second.fls_server, "192.0.2.7");
  EXPECT_LT(second.fls_currency, 0);
  EXPECT_EQ(second.fls_info.size(), 12u);
  EXPECT_TRUE(std::ranges::all_of(second.fls_info.bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

// RFC 8881 §11.4.1
TEST_F(ReferralTest, VerifyNeedsOnlyAttributesOfAnAbsentFileSystem) {
  const auto verify = [&](const fattr4& values) {
    return Run0(PutFh(Far()), Op(OP_VERIFY, VERIFY4args{values})).status;
  };
  const fsid4 fsid{.major = server.exports.table().Resolve("/far").found->id().value(), .minor = 0};
  GivenValues only_fsid(server.buffers);
  EXPECT_EQ(verify(only_fsid.Add(FATTR4_FSID, fsid).Take()), NFS4ERR_MOVED);
  GivenValues with_type(server.buffers);
  with_type.Add(FATTR4_TYPE, NF4DIR).Add(FATTR4_FS_LOCATIONS, fs_locations4{});
  EXPECT_EQ(verify(with_type.Take()), NFS4ERR_MOVED);
  GivenValues other(server.buffers);
  EXPECT_EQ(verify(other.Add(FATTR4_FSID, fsid).Add(FATTR4_FS_LOCATIONS, fs_locations4{}).Take()), NFS4ERR_NOT_SAME);
}

// RFC 8881 §11.4.2, §11.15.2
TEST_F(ReferralTest, ReaddirShowsTheReferralByTheRequestedAttributes) {
  const auto read = [&](const AttributeSet& set) {
    return Run0(PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, set.ToBitmap()}));
  };
  EXPECT_EQ(read({FATTR4_FSID, FATTR4_SIZE}).status, NFS4ERR_MOVED);

  const auto attributes_of = [&](CompoundReply reply, std::string_view name) {
    EXPECT_EQ(reply.status, NFS4_OK);
    const auto result = reply.Skip().Next<READDIR4res>();
    for (const entry4& entry : result.resok4().reply.entries) {
      if (entry.name == name) return entry.attrs;
    }
    ADD_FAILURE() << name;
    return fattr4{};
  };
  const AttributeSet set{FATTR4_FSID, FATTR4_SIZE, FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID};
  const fattr4 moved = attributes_of(read(set), "far");
  EXPECT_EQ(AttributeSet(moved.attrmask), (AttributeSet{FATTR4_FSID, FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID}));
  EXPECT_EQ(static_cast<nfsstat4>(LoadBig<uint32_t>(moved.attr_vals.data() + sizeof(fsid4))), NFS4ERR_MOVED);
  EXPECT_EQ(AttributeSet(attributes_of(read(set), "near").attrmask), set);

  AttributeSet with_locations = set;
  with_locations.Add(FATTR4_FS_LOCATIONS);
  const fattr4 told = attributes_of(read(with_locations), "far");
  EXPECT_EQ(AttributeSet(told.attrmask), with_locations - AttributeSet{FATTR4_SIZE});
  EXPECT_EQ(static_cast<nfsstat4>(LoadBig<uint32_t>(told.attr_vals.data() + sizeof(fsid4))), NFS4_OK);
  EXPECT_EQ(AttributeSet(attributes_of(read(with_locations), "near").attrmask), set);
}

// The list of a READDIR has room for the longest locations.
TEST_F(ReferralTest, ReaddirReturnsTheLongestLocations) {
  std::string text = "/a@h";
  while (text.size() + 2 <= Locations::kLongestText) text += "+h";
  AddReferral("/longest", text);
  MakeDirectory("longest");
  const AttributeSet set{FATTR4_FS_LOCATIONS, FATTR4_FS_LOCATIONS_INFO};
  auto reply = Run(PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 256 << 10, set.ToBitmap()}));
  ASSERT_EQ(reply.status, NFS4_OK);
  const auto result = reply.Skip().Next<READDIR4res>();
  size_t longest = 0;
  for (const entry4& entry : result.resok4().reply.entries) longest = std::max(longest, entry.attrs.attr_vals.size());
  EXPECT_GT(longest, 2046u * (28 + 8));
  EXPECT_LT(longest, 2 * kLongestLocations);
}

TEST_F(ReplicasTest, AServedExportListsItsReplicas) {
  Nfs4Server server;
  ExportOptions options{.squash = Squash::kNone};
  options.locations.list = *ParseLocations("/copy@two");
  server.Export("/data", options);
  server.Export("/plain");
  SessionClient client(server, "client");
  auto reply =
      client.Run(PutRoot(), LookUp("data"), GetAttr({FATTR4_TYPE, FATTR4_FS_LOCATIONS, FATTR4_FS_LOCATIONS_INFO}));
  ASSERT_EQ(reply.status, NFS4_OK);
  const fattr4 got = reply.Skip(2).Next<GETATTR4res>().resok4().obj_attributes;
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(got.attr_vals.bytes()));
  xdr::Decoder decoder(message);
  nfs_ftype4 type{};
  fs_locations4 locations;
  fs_locations_info4 info;
  ASSERT_TRUE(xdr::Decode(decoder, type) && xdr::Decode(decoder, locations) && xdr::Decode(decoder, info));
  ASSERT_EQ(locations.locations.size(), 1u);
  EXPECT_THAT(locations.locations[0].server, ElementsAre("two"));
  ASSERT_EQ(info.fli_items.size(), 2u);
  const fs_locations_server4 own = info.fli_items[0].fli_entries[0];
  EXPECT_EQ(own.fls_server, "");
  EXPECT_EQ(own.fls_info.bytes()[FSLI4BX_GFLAGS], std::byte{FSLI4GF_CUR_REQ | FSLI4GF_WRITABLE});
  EXPECT_THAT(Components(info.fli_items[0].fli_rootpath), ElementsAre("data"));
  EXPECT_THAT(Components(info.fli_items[1].fli_rootpath), ElementsAre("copy"));

  auto plain = client.Run(PutRoot(), LookUp("plain"), GetAttr({FATTR4_TYPE, FATTR4_FS_LOCATIONS}));
  EXPECT_EQ(AttributeSet(plain.Skip(2).Next<GETATTR4res>().resok4().obj_attributes.attrmask),
            AttributeSet{FATTR4_TYPE});
}

TEST_F(ReferralTest, NoExportCanBeBelowAReferral) {
  AddReferral("/far/deep/inside", "/a@one");
  const auto made = Namespace::Make(server.exports, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            "export \"/far/deep/inside\" cannot be below the export \"/far\", which is a referral to another server");
}

}  // namespace
}  // namespace penstock::nfs::v4
