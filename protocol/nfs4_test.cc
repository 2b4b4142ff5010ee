// Tests the encoding of NFS version 4: known octets, open and closed enums, bounds of lengths.
#include "protocol/nfs4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "encoding_test.h"
#include "protocol/nfs4_callback.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::nfs4 {
namespace {

using xdr::testing::Octets;

template <size_t N>
std::array<std::byte, N> Filled(uint8_t octet) {
  std::array<std::byte, N> bytes;
  bytes.fill(std::byte{octet});
  return bytes;
}

class Nfs4 : public EncodingTest {
 protected:
  // Returns the error of decoding the octets as a T, or kNone.
  template <class T>
  xdr::Error ErrorOf(const std::string& hex) {
    const xdr::Message message = Message(hex);
    const auto value = xdr::DecodeWhole<T>(message);
    return value ? xdr::Error::kNone : value.error();
  }
  xdr::Message Message(const std::string& hex) { return xdr::Message::Whole(Octets(pool_, hex)); }
};

std::string Repeated(const std::string& hex, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += hex;
  return all;
}

TEST_F(Nfs4, EncodesAReadReply) {
  const READ4res read(NFS4_OK, READ4resok{.eof = true, .data = xdr::Payload<>::Borrowed("abc")});
  ExpectEncoding(read, "00000000 00000001 00000003 61626300");
  ExpectEncoding(READ4res(NFS4ERR_OLD_STATEID), "00002728");
}

TEST_F(Nfs4, EncodesAttributesAsAMaskAndOctets) {
  const xdr::Message values = Message("00000002 00000000 00000007");
  const fattr4 attributes{.attrmask = {1 << FATTR4_TYPE | 1 << FATTR4_CHANGE}, .attr_vals = values.stream.bytes()};
  ExpectEncoding(attributes, "00000001 0000000a 0000000c 00000002 00000000 00000007");
}

// RFC 8881 §3.2: bitmap4 has no bound. Later minor versions may define more attributes.
TEST_F(Nfs4, AcceptsAMaskLongerThanTheKnownAttributes) {
  const GETATTR4args args{.attr_request = {1, 2, 4, 8, 16}};
  ExpectEncoding(args, "00000005 00000001 00000002 00000004 00000008 00000010");
}

TEST_F(Nfs4, EncodesAnOpenThatCreates) {
  OPEN4args args{.share_access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG};
  args.owner = {.clientid = 0x0102030405060708, .owner = AsBytes("me")};
  const creatverfattr create{.cva_verf = Filled<8>(0xee)};
  args.openhow = openflag4(OPEN4_CREATE, createhow4(EXCLUSIVE4_1, create));
  args.claim = open_claim4(CLAIM_NULL, component4("a"));
  ExpectEncoding(args,
                 "00000000 00000403 00000000 01020304 05060708 00000002 6d650000 "
                 "00000001 00000003 eeeeeeee eeeeeeee 00000000 00000000 00000000 00000001 61000000");
}

TEST_F(Nfs4, DefaultOpenCreatesNothing) {
  OPEN4args args;
  args.claim.Select(CLAIM_FH);
  ExpectEncoding(args, Repeated("00000000 ", 7) + "00000004");
}

TEST_F(Nfs4, EncodesADeniedLock) {
  const LOCK4denied denied{
      .offset = 1, .length = NFS4_UINT64_MAX, .locktype = WRITE_LT, .owner = {.clientid = 2, .owner = AsBytes("abc")}};
  ExpectEncoding(LOCK4res(NFS4ERR_DENIED, denied),
                 "0000271a 00000000 00000001 ffffffff ffffffff 00000002 00000000 00000002 00000003 61626300");
}

TEST_F(Nfs4, EncodesExchangeId) {
  EXCHANGE_ID4args args;
  args.eia_clientowner = {.co_verifier = Filled<8>(0xab), .co_ownerid = AsBytes("host")};
  args.eia_flags = EXCHGID4_FLAG_USE_NON_PNFS;
  args.eia_client_impl_id = nfs_impl_id4{.nii_domain = "org", .nii_name = "n", .nii_date = {.seconds = -1}};
  ExpectEncoding(args,
                 "abababab abababab 00000004 686f7374 00010000 00000000 "
                 "00000001 00000003 6f726700 00000001 6e000000 ffffffff ffffffff 00000000");
}

TEST_F(Nfs4, EncodesTheSecurityParametersOfABackChannel) {
  const callback_sec_parms4 sys(rpcmsg::AUTH_SYS, rpcmsg::authsys_parms{.machinename = "m", .uid = 1, .gid = 2});
  ExpectEncoding(sys, "00000001 00000000 00000001 6d000000 00000001 00000002 00000000");
  ExpectEncoding(callback_sec_parms4(rpcmsg::AUTH_NONE), "00000000");
}

TEST_F(Nfs4, EncodesACopyWithinTheServer) {
  const COPY4args args{.ca_src_stateid = {.seqid = 1, .other = Filled<12>(0xaa)},
                       .ca_dst_stateid = {.seqid = 2, .other = Filled<12>(0xbb)},
                       .ca_src_offset = 3,
                       .ca_dst_offset = 4,
                       .ca_count = 5,
                       .ca_consecutive = true};
  ExpectEncoding(args, "00000001 " + Repeated("aaaaaaaa ", 3) + "00000002 " + Repeated("bbbbbbbb ", 3) +
                           "00000000 00000003 00000000 00000004 00000000 00000005 00000001 00000000 00000000");
  const write_response4 response{.wr_count = 5, .wr_committed = FILE_SYNC4, .wr_writeverf = Filled<8>(0xcc)};
  ExpectEncoding(response, "00000000 00000000 00000005 00000002 cccccccc cccccccc");
}

TEST_F(Nfs4, EncodesExtendedAttributes) {
  const SETXATTR4args args{.sxa_option = SETXATTR4_REPLACE, .sxa_key = "k", .sxa_value = AsBytes("v")};
  ExpectEncoding(args, "00000002 00000001 6b000000 00000001 76000000");
  ExpectEncoding(GETXATTR4res(NFS4ERR_NOXATTR), "0000276f");
}

// RFC 8881 §2.10.3.1, §18.36: `T x<1>` has the encoding of `T *x`.
TEST_F(Nfs4, EncodesAnArrayOfAtMostOneElementAsOptional) {
  channel_attrs4 channel;
  ExpectEncoding(channel, Repeated("00000000 ", 6) + "00000000");
  channel.ca_rdma_ird = 32;
  ExpectEncoding(channel, Repeated("00000000 ", 6) + "00000001 00000020");
  EXPECT_NE(ErrorOf<channel_attrs4>(Repeated("00000000 ", 6) + "00000002 00000020 00000020"), xdr::Error::kNone);
}

// The server rejects these values with NFS errors of their own, so the decoder must accept them.
TEST_F(Nfs4, DecodesUndefinedValuesThatHaveErrorsOfTheirOwn) {
  const auto create = xdr::DecodeWhole<createtype4>(Message("00000063"));  // NFS4ERR_BADTYPE
  ASSERT_TRUE(create);
  EXPECT_EQ(create->type(), static_cast<nfs_ftype4>(99));

  const std::string layout = "00000000 00000009 00000008 " + Repeated("00000000 ", 11);
  const auto get = xdr::DecodeWhole<LAYOUTGET4args>(Message(layout));
  ASSERT_TRUE(get);
  EXPECT_EQ(get->loga_layout_type, static_cast<layouttype4>(9));  // NFS4ERR_UNKNOWN_LAYOUTTYPE
  EXPECT_EQ(get->loga_iomode, static_cast<layoutiomode4>(8));     // NFS4ERR_BADIOMODE

  EXPECT_EQ(ErrorOf<SEEK4args>(Repeated("00000000 ", 6) + "00000007"), xdr::Error::kNone);  // NFS4ERR_UNION_NOTSUPP
  EXPECT_EQ(ErrorOf<nfs_opnum4>("00000002"), xdr::Error::kNone);                            // NFS4ERR_OP_ILLEGAL
  EXPECT_EQ(ErrorOf<nfs_cb_opnum4>("00000002"), xdr::Error::kNone);
}

TEST_F(Nfs4, DecodesResultsOfLaterServers) {
  const auto status = xdr::DecodeWhole<GETATTR4res>(Message("0000ffff"));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->status(), static_cast<nfsstat4>(0xffff));
  EXPECT_EQ(ErrorOf<open_delegation4>("00000003 00000009"), xdr::Error::kNone);  // an undefined reason
  EXPECT_EQ(ErrorOf<fattr4_change_attr_type>("00000009"), xdr::Error::kNone);
}

// RFC 8881 §15.1.1.1: the server rejects these values with NFS4ERR_BADXDR.
TEST_F(Nfs4, RejectsUndefinedValuesOfClosedEnums) {
  EXPECT_EQ(ErrorOf<createhow4>("00000004"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<openflag4>("00000002"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<open_claim4>("00000007"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<settime4>("00000002"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<nfs_lock_type4>("00000005"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<stable_how4>("00000003"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<channel_dir_from_client4>("00000004"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<state_protect4_a>("00000003"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<SECINFO_NO_NAME4args>("00000002"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<netloc4>("00000004"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<setxattr_option4>("00000003"), xdr::Error::kBadEnum);
  EXPECT_EQ(ErrorOf<deleg_claim4>("00000000"), xdr::Error::kBadUnion);  // other unions have an arm for CLAIM_NULL
  EXPECT_EQ(ErrorOf<callback_sec_parms4>("00000003"), xdr::Error::kBadUnion);
  EXPECT_EQ(ErrorOf<RECLAIM_COMPLETE4args>("00000002"), xdr::Error::kBadBool);
}

TEST_F(Nfs4, LengthsHaveTheBoundsOfTheRfcs) {
  EXPECT_EQ(ErrorOf<nfs_fh4>("00000080" + Repeated("00000000", 32)), xdr::Error::kNone);
  EXPECT_EQ(ErrorOf<nfs_fh4>("00000081" + Repeated("00000000", 33)), xdr::Error::kTooLong);
  EXPECT_EQ(ErrorOf<lock_owner4>("00000000 00000000 00000400" + Repeated("00000000", 256)), xdr::Error::kNone);
  EXPECT_EQ(ErrorOf<lock_owner4>("00000000 00000000 00000401" + Repeated("00000000", 257)), xdr::Error::kTooLong);
  EXPECT_EQ(ErrorOf<client_owner4>("00000000 00000000 00000401" + Repeated("00000000", 257)), xdr::Error::kTooLong);
  EXPECT_EQ(xdr::MaxSize<SEQUENCE4args>(), 16u + 4 * 4);
  EXPECT_EQ(xdr::MaxSize<SEQUENCE4res>(), 4u + 16 + 5 * 4);
  EXPECT_EQ(xdr::MaxSize<GETFH4res>(), 4u + 4 + 128);
  EXPECT_EQ(xdr::MaxSize<READ4res>(), 4u + 4 + 4);  // without the payload
}

// RFC 8881 §18.30.4
TEST_F(Nfs4, SetattrReturnsTheSetAttributesWithEachStatus) {
  ExpectEncoding(SETATTR4res{.status = NFS4ERR_ISDIR, .attrsset = {}}, "00000015 00000000");
}

// nfs4.x lists the harmless case of these unions first.
TEST_F(Nfs4, DefaultsOfUnionsAreHarmless) {
  EXPECT_EQ(settime4().set_it(), SET_TO_SERVER_TIME4);
  EXPECT_EQ(openflag4().opentype(), OPEN4_NOCREATE);
  EXPECT_EQ(LOCKT4res().status(), NFS4_OK);
  EXPECT_EQ(open_none_delegation4().ond_why(), WND4_NOT_WANTED);
}

TEST_F(Nfs4, HasTheNumbersOfProgramsAndProcedures) {
  EXPECT_EQ(NFSPROC4_COMPOUND::kProgram, 100003u);
  EXPECT_EQ(NFSPROC4_COMPOUND::kVersion, 4u);
  EXPECT_EQ(NFSPROC4_COMPOUND::kNumber, 1u);
  EXPECT_EQ(CB_COMPOUND::kProgram, 0x40000000u);
  EXPECT_EQ(CB_COMPOUND::kVersion, 1u);
  EXPECT_EQ(CB_COMPOUND::kNumber, 1u);
}

}  // namespace
}  // namespace penstock::nfs4
