// The operations of NFSv4. Each file below holds a section of RFC 8881 §18 (RFC 7530 §16 for operations that only
// minor version 0 has, RFC 7862 §15 for minor version 2, RFC 8276 §8 for extended attributes).
//
// Each function takes the COMPOUND and the operation's arguments, and returns its result. Views in the arguments are
// valid during the call. The program calls a function only if the dialect has the operation and the filehandles that it
// needs exist (operation_table.cc). Functions whose result may be long encode it themselves, and return the status.
#pragma once

#include "base/task.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/engine/compound.h"
#include "protocol/nfs4_0.h"
#include "protocol/nfs4_1.h"
#include "protocol/nfs4_2.h"
#include "protocol/nfs4_sess01.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

// filehandles.cc: PUTFH PUTROOTFH PUTPUBFH GETFH SAVEFH RESTOREFH
nfs4::PUTFH4res PutFileHandle(Compound& compound, const nfs4::PUTFH4args& arguments);
// The same at the end of a COMPOUND: no operation follows that would find out whether the object exists.
Task<nfs4::PUTFH4res> PutLastFileHandle(Compound& compound, const nfs4::PUTFH4args& arguments);
nfs4::PUTROOTFH4res PutRootFileHandle(Compound& compound);
nfs4::PUTPUBFH4res PutPublicFileHandle(Compound& compound);
nfs4::GETFH4res GetFileHandle(Compound& compound);
nfs4::SAVEFH4res SaveFileHandle(Compound& compound);
nfs4::RESTOREFH4res RestoreFileHandle(Compound& compound);

// lookup.cc
Task<nfs4::LOOKUP4res> Lookup(Compound& compound, const nfs4::LOOKUP4args& arguments);
Task<nfs4::LOOKUPP4res> LookupParent(Compound& compound);
Task<nfs4::READLINK4res> ReadLink(Compound& compound);
Task<nfs4::SECINFO4res> SecurityInformation(Compound& compound, const nfs4::SECINFO4args& arguments);
Task<nfs4::SECINFO_NO_NAME4res> SecurityInformationNoName(Compound& compound,
                                                          const nfs4::SECINFO_NO_NAME4args& arguments);

// attributes.cc
Task<nfs4::nfsstat4> GetAttributes(Compound& compound, const AttributeSet& wanted, xdr::Encoder& results);
Task<nfs4::SETATTR4res> SetAttributes(Compound& compound, const nfs4::SETATTR4args& arguments);
Task<nfs4::VERIFY4res> Verify(Compound& compound, const nfs4::VERIFY4args& arguments);
Task<nfs4::NVERIFY4res> NotVerify(Compound& compound, const nfs4::NVERIFY4args& arguments);
Task<nfs4::ACCESS4res> Access(Compound& compound, const nfs4::ACCESS4args& arguments);

// directory.cc
Task<nfs4::nfsstat4> ReadDirectory(Compound& compound, const nfs4::READDIR4args& arguments, xdr::Encoder& results);

// names.cc
Task<nfs4::CREATE4res> Create(Compound& compound, const nfs4::CREATE4args& arguments);
Task<nfs4::REMOVE4res> Remove(Compound& compound, const nfs4::REMOVE4args& arguments);
Task<nfs4::RENAME4res> Rename(Compound& compound, const nfs4::RENAME4args& arguments);
Task<nfs4::LINK4res> Link(Compound& compound, const nfs4::LINK4args& arguments);

// read_write.cc
Task<nfs4::READ4res> Read(Compound& compound, const nfs4::READ4args& arguments);
Task<nfs4::WRITE4res> Write(Compound& compound, const nfs4::WRITE4args& arguments);
Task<nfs4::COMMIT4res> Commit(Compound& compound, const nfs4::COMMIT4args& arguments);

// client_id.cc: clients of minor version 0
nfs4::SETCLIENTID4res SetClientId(Compound& compound, const nfs4::SETCLIENTID4args& arguments);
nfs4::SETCLIENTID_CONFIRM4res ConfirmClientId(Compound& compound, const nfs4::SETCLIENTID_CONFIRM4args& arguments);
nfs4::RENEW4res Renew(Compound& compound, const nfs4::RENEW4args& arguments);

// session.cc: clients and sessions of minor version 1 and later. SEQUENCE itself is the engine's (sequence.cc).
nfs4::EXCHANGE_ID4res ExchangeId(Compound& compound, const nfs4::EXCHANGE_ID4args& arguments);
Task<nfs4::CREATE_SESSION4res> CreateSession(Compound& compound, const nfs4::CREATE_SESSION4args& arguments);
nfs4::BIND_CONN_TO_SESSION4res BindConnection(Compound& compound, const nfs4::BIND_CONN_TO_SESSION4args& arguments);
nfs4::BACKCHANNEL_CTL4res ControlBackChannel(Compound& compound, const nfs4::BACKCHANNEL_CTL4args& arguments);
nfs4::DESTROY_SESSION4res DestroySession(Compound& compound, const nfs4::DESTROY_SESSION4args& arguments);
nfs4::DESTROY_CLIENTID4res DestroyClientId(Compound& compound, const nfs4::DESTROY_CLIENTID4args& arguments);
nfs4::SET_SSV4res SetSecret(Compound& compound, const nfs4::SET_SSV4args& arguments);
Task<nfs4::RECLAIM_COMPLETE4res> ReclaimComplete(Compound& compound, const nfs4::RECLAIM_COMPLETE4args& arguments);

// bound_session.cc: the sessions of 2004. OPERATION_CONTROL itself is the engine's (operation_control.cc).
Task<nfs4::SESSIONCREATE4res> CreateBoundSession(Compound& compound, const nfs4::SESSIONCREATE4args& arguments);
Task<nfs4::nfsstat4> BindToSession(Compound& compound, const nfs4::SESSIONBIND4args& arguments, xdr::Encoder& results);
Task<nfs4::SESSION_DESTROYres> DestroyBoundSession(Compound& compound);

// open.cc
Task<nfs4::OPEN4res> Open(Compound& compound, const nfs4::OPEN4args& arguments);
nfs4::OPEN_CONFIRM4res ConfirmOpen(Compound& compound, const nfs4::OPEN_CONFIRM4args& arguments);
nfs4::OPEN_DOWNGRADE4res DowngradeOpen(Compound& compound, const nfs4::OPEN_DOWNGRADE4args& arguments);
Task<nfs4::CLOSE4res> Close(Compound& compound, const nfs4::CLOSE4args& arguments);
Task<nfs4::OPENATTR4res> OpenAttributes(Compound& compound, const nfs4::OPENATTR4args& arguments);

// lock.cc
Task<nfs4::LOCK4res> Lock(Compound& compound, const nfs4::LOCK4args& arguments);
Task<nfs4::LOCKT4res> TestLock(Compound& compound, const nfs4::LOCKT4args& arguments);
Task<nfs4::LOCKU4res> Unlock(Compound& compound, const nfs4::LOCKU4args& arguments);
nfs4::RELEASE_LOCKOWNER4res ReleaseLockOwner(Compound& compound, const nfs4::RELEASE_LOCKOWNER4args& arguments);

// delegation.cc
nfs4::DELEGRETURN4res ReturnDelegation(Compound& compound, const nfs4::DELEGRETURN4args& arguments);
nfs4::DELEGPURGE4res PurgeDelegations(Compound& compound, const nfs4::DELEGPURGE4args& arguments);
Task<nfs4::WANT_DELEGATION4res> WantDelegation(Compound& compound, const nfs4::WANT_DELEGATION4args& arguments);
Task<nfs4::GET_DIR_DELEGATION4res> GetDirectoryDelegation(Compound& compound,
                                                          const nfs4::GET_DIR_DELEGATION4args& arguments);

// stateid.cc
nfs4::TEST_STATEID4res TestStateIds(Compound& compound, const nfs4::TEST_STATEID4args& arguments);
nfs4::FREE_STATEID4res FreeStateId(Compound& compound, const nfs4::FREE_STATEID4args& arguments);

// space.cc: RFC 7862 §15.1 ALLOCATE, §15.4 DEALLOCATE, §15.5 IO_ADVISE, §15.11 SEEK, §15.12 WRITE_SAME
// read_plus.cc: §15.10
Task<nfs4::ALLOCATE4res> Allocate(Compound& compound, const nfs4::ALLOCATE4args& arguments);
Task<nfs4::DEALLOCATE4res> Deallocate(Compound& compound, const nfs4::DEALLOCATE4args& arguments);
Task<nfs4::SEEK4res> Seek(Compound& compound, const nfs4::SEEK4args& arguments);
Task<nfs4::nfsstat4> ReadPlus(Compound& compound, const nfs4::READ_PLUS4args& arguments, xdr::Encoder& results);
Task<nfs4::WRITE_SAME4res> WriteSame(Compound& compound, const nfs4::WRITE_SAME4args& arguments);
Task<nfs4::IO_ADVISE4res> Advise(Compound& compound, const nfs4::IO_ADVISE4args& arguments);

// copy_notify.cc: RFC 7862 §15.3
Task<nfs4::COPY_NOTIFY4res> NotifyOfCopy(Compound& compound, const nfs4::COPY_NOTIFY4args& arguments);
// copy.cc: RFC 7862 §15.2 COPY, §15.8 OFFLOAD_CANCEL, §15.9 OFFLOAD_STATUS, §15.13 CLONE
Task<nfs4::COPY4res> Copy(Compound& compound, const nfs4::COPY4args& arguments);
Task<nfs4::OFFLOAD_CANCEL4res> CancelOffload(Compound& compound, const nfs4::OFFLOAD_CANCEL4args& arguments);
nfs4::OFFLOAD_STATUS4res OffloadStatus(Compound& compound, const nfs4::OFFLOAD_STATUS4args& arguments);
Task<nfs4::CLONE4res> Clone(Compound& compound, const nfs4::CLONE4args& arguments);

// extended_attributes.cc: RFC 8276 §8.4
Task<nfs4::nfsstat4> GetExtendedAttribute(Compound& compound, const nfs4::GETXATTR4args& arguments,
                                          xdr::Encoder& results);
Task<nfs4::SETXATTR4res> SetExtendedAttribute(Compound& compound, const nfs4::SETXATTR4args& arguments);
Task<nfs4::nfsstat4> ListExtendedAttributes(Compound& compound, const nfs4::LISTXATTRS4args& arguments,
                                            xdr::Encoder& results);
Task<nfs4::REMOVEXATTR4res> RemoveExtendedAttribute(Compound& compound, const nfs4::REMOVEXATTR4args& arguments);

}  // namespace penstock::nfs::v4
