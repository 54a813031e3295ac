// SPDX-License-Identifier: MIT
// The client of confabd. Fields have the names of confab.proto in camel case, and mean what docs/protocol.md says.
//
// - 64-bit numbers (ids, revisions, seeds, sizes, times) are BigInts in answers. Requests take a BigInt, a safe
//   integer, or a string of decimal digits.
// - Enums are lower-case names. Answers of a newer daemon may have "unknown".
// - A field without a value is not there; lists always are.
// - Everything fails with a ConfabError, except an abort, which fails with the reason of its signal.
/// <reference types="node" />

export type BigIntLike = bigint | number | string;
/** A conversation: its name, its id (also as digits), or something that has one of them. The id counts first. */
export type Ref = bigint | number | string | { id: bigint } | { name: string };
/** A text that is JSON, or what it stands for. */
export type Json = string | object;
export type Bytes = string | Uint8Array;

export type Role = 'unspecified' | 'system' | 'user' | 'assistant' | 'raw' | 'tool' | 'unknown';
export type Residency = 'unspecified' | 'resident' | 'partial' | 'spilled' | 'cold' | 'unknown';
export type FinishReason = 'unspecified' | 'stop' | 'stop_string' | 'length' | 'context' | 'cancelled' | 'unknown';
export type Differs =
  'unspecified' | 'end' | 'new' | 'token' | 'lost' | 'partial' | 'private' | 'shifted' | 'unknown';
export type Overflow = 'unspecified' | 'error' | 'shift' | 'unknown';
export type PartKind = 'unspecified' | 'text' | 'reasoning' | 'call' | 'unknown';
export type WritingState = 'unspecified' | 'waits' | 'restores' | 'reads' | 'writes' | 'ends' | 'unknown';
export type Order = 'unspecified' | 'id' | 'updated';
export type NoticeKind =
  'unspecified' | 'model' | 'list_again' | 'opened' | 'forked' | 'turn_begun' | 'turn_ended' | 'changed' | 'rewound' |
  'evicted' | 'restored' | 'closed' | 'pressure' | 'unknown';
export type QuotaOrigin = 'unspecified' | 'setting' | 'group' | 'user' | 'tenants' | 'tenant' | 'unknown';

/**
 * `code` is stable: those of docs/protocol.md, and of this side "no_daemon" (nobody listens), "disconnected" (the
 * connection ended before the answer) and "protocol" (the daemon broke the protocol). `retry`: the same request may
 * succeed later.
 */
export class ConfabError extends Error {
  readonly code: string;
  readonly retry: boolean;
}

// ---- what requests and answers have in common ----

export interface LogitBias {
  token: number;
  bias: number;
}
export interface Sampling<Big = BigIntLike> {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  penaltyLastN?: number;
  seed?: Big;
  logitBias?: LogitBias[];
}
export interface About<J = Json> {
  title?: string;
  tags?: string[];
  metadata?: J;
  session?: string;
  /** Seconds; 0: never. */
  expiresAfter?: number;
}
export interface Call {
  id?: string;
  name: string;
  arguments: Json;
}
export interface ToolResult {
  callId?: string;
  name?: string;
  text?: string;
}
export interface Given {
  text?: string;
  reasoning?: string;
  calls?: Call[];
}
export interface Message extends Given {
  role: 'system' | 'user' | 'assistant' | 'tool';
  results?: ToolResult[];
}

// ---- answers ----

export interface Part {
  index: number;
  kind: PartKind;
  text?: string;
  callId?: string;
  name?: string;
  ends?: boolean;
  broken?: string;
}
export interface Run {
  model?: string;
  seed?: bigint;
  nPrompt?: number;
  nGenerated?: number;
  nRam?: number;
  nDisk?: number;
  nShared?: number;
  nComputed?: number;
  queuedUsec?: bigint;
  restoreUsec?: bigint;
  prefillUsec?: bigint;
  decodeUsec?: bigint;
}
export interface Turn {
  role: Role;
  start: number;
  end: number;
  finish?: FinishReason;
  /** Bytes: a model may end in the middle of a character. */
  text?: Buffer;
  createdUsec?: bigint;
  results: ToolResult[];
  parts: Part[];
  tools?: string;
  run?: Run;
}
export interface Writing {
  state: WritingState;
  revision: bigint;
  turn?: Turn;
  done: number;
  total: number;
  nGenerated: number;
}
export interface Hit {
  turn?: number;
  snippet?: string;
}
export interface Conversation {
  id: bigint;
  name: string;
  uid: number;
  tenant?: string;
  parent: bigint;
  forkPos: number;
  revision: bigint;
  nTokens: number;
  nTurns: number;
  residency: Residency;
  ramBytes: bigint;
  diskBytes: bigint;
  createdUsec: bigint;
  updatedUsec: bigint;
  busy: boolean;
  generating: boolean;
  unanswered: boolean;
  sampling?: Sampling<bigint>;
  overflow: Overflow;
  droppedFrom: number;
  droppedTo: number;
  nPublished: number;
  privateMemory: boolean;
  pinned: boolean;
  otherVocabulary: boolean;
  unusableBytes: bigint;
  about?: About<string>;
  /** `get` with `turns`. */
  turnList: Turn[];
  firstTurn?: number;
  tools?: string;
  /** `get` with `tokens`. */
  tokenList: number[];
  damagedTurn?: number;
  writing?: Writing;
  /** `list` with `search`. */
  hit?: Hit;
  /** `evict`. */
  nNotKept?: number;
  whyNotKept?: string;
  /** `carry`. */
  carried?: boolean;
  nTokensBefore?: number;
  nBiasesDropped?: number;
}
export interface Conversations {
  conversations: Conversation[];
  more: boolean;
  cursor?: string;
}
export interface TokenLogprob {
  token: number;
  logprob: number;
  text: Buffer;
}
export interface DeltaToken {
  token: number;
  logprob?: number;
  top: TokenLogprob[];
  /** What the token prints; with log-probabilities only. */
  text?: Buffer;
}
export interface Accepted {
  conversation: bigint;
  revision: bigint;
  nPrompt: number;
  nRam: number;
  nDisk: number;
  nShared: number;
  nComputed: number;
  differsAt: number;
  differsWhy: Differs;
  nDropped: number;
}
export interface Progress {
  done: number;
  total: number;
  /** Of `check`. */
  doneBytes?: bigint;
  totalBytes?: bigint;
}
export interface Delta {
  text?: string;
  tokens: DeltaToken[];
  parts: Part[];
  position: number;
}
export interface Done {
  finish: FinishReason;
  revision: bigint;
  nPrompt: number;
  nGenerated: number;
  nRam: number;
  nDisk: number;
  nShared: number;
  nComputed: number;
  differsAt: number;
  differsWhy: Differs;
  nDropped: number;
  queuedUsec: bigint;
  restoreUsec: bigint;
  prefillUsec: bigint;
  decodeUsec: bigint;
  stop?: string;
  seed: bigint;
  nCalls?: number;
  nDrafted: number;
  nAccepted: number;
}
export type ReplyEvent =
  | ({ type: 'accepted' } & Accepted)
  | ({ type: 'progress' } & Progress)
  | ({ type: 'delta' } & Delta)
  | ({ type: 'done' } & Done);
export interface Notice {
  cursor: string;
  kind: NoticeKind;
  conversation?: bigint;
  uid?: number;
  tenant?: string;
  revision?: bigint;
  parent?: bigint;
  finish?: FinishReason;
  model?: string;
  fingerprint?: string;
  budget?: bigint;
  pressed?: boolean;
}
export interface Found {
  conversation?: Conversation;
  atTurn?: number;
  nMessages?: number;
  otherSession?: boolean;
}
/** One of `uid` (with a tenant of it, or all of them) and `gid`. */
export interface QuotaSubject {
  uid?: number;
  tenant?: string;
  allTenants?: boolean;
  gid?: number;
}
export interface QuotaLimit {
  subject?: QuotaSubject;
  name: string;
  /** Not there: no limit. */
  value?: bigint;
  used?: bigint;
  unit?: string;
  origin: QuotaOrigin;
  gid?: number;
  renewsUsec?: bigint;
}
export interface Quotas {
  limits: QuotaLimit[];
  more: boolean;
  cursor?: string;
}
export interface TokenizeResult {
  tokens: number[];
  pieces: Buffer[];
}
export interface ModelInfoResult {
  name?: string;
  architecture?: string;
  path?: string;
  nVocab: number;
  nLayer: number;
  nEmbd: number;
  context: number;
  contextTrain: number;
  nParams: bigint;
  weightsBytes: bigint;
  chatFamily?: string;
  tokenizer?: string;
  fingerprint?: string;
  blockTokens: number;
  blockBytes: bigint;
  isa?: string;
  kvType?: string;
  takesTools?: boolean;
  reasons?: boolean;
  replyFormat?: string;
  stateBytes?: bigint;
  window?: number;
  windowBlockBytes?: bigint;
}
export interface Exported {
  size: bigint;
  nMemoryTokens: number;
}

// ---- requests ----

export interface OpenFields {
  name?: string;
  system?: string;
  sampling?: Sampling;
  overflow?: 'error' | 'shift';
  tools?: Json;
  about?: About;
}
/** One of `message`, `raw`, `tokens`, `nothing`, `results`, `given` and `messages`. */
export interface ToolChoice {
  /** Empty or unset: any. */
  function?: string;
}
export interface ContinueFields {
  message?: string;
  raw?: Bytes;
  tokens?: number[] | Int32Array;
  nothing?: boolean;
  results?: ToolResult[];
  given?: Given;
  messages?: Message[];
  role?: 'system' | 'user' | 'assistant' | 'tool';
  sampling?: Sampling;
  maxTokens?: number;
  stop?: string[];
  logprobs?: number;
  wantLogprobs?: boolean;
  expectRevision?: BigIntLike;
  detach?: boolean;
  ignoreEos?: boolean;
  background?: boolean;
  /** One of the two. */
  atTurn?: number;
  atPosition?: number;
  wait?: boolean;
  /** One of the three. */
  jsonSchema?: Json;
  gbnf?: string;
  /** The reply is a call of this function, or of any. */
  toolChoice?: ToolChoice;
  tools?: Json;
  wantParts?: boolean;
}
export interface ForkFields {
  name?: string;
  atTurn?: number;
  atPosition?: number;
  expectRevision?: BigIntLike;
  about?: About;
}
/** One of `turns`, `atTurn` and `atPosition`. */
export interface RewindFields {
  turns?: number;
  atTurn?: number;
  atPosition?: number;
  expectRevision?: BigIntLike;
}
export interface GetFields {
  turns?: boolean;
  tokens?: boolean;
  parts?: boolean;
  maxTurns?: number;
  fromTurn?: number;
  beforeTurn?: number;
}
export interface ListFields {
  afterId?: BigIntLike;
  limit?: number;
  allUsers?: boolean;
  order?: Order;
  cursor?: string;
  tag?: string;
  search?: string;
}
export interface UpdateFields {
  name?: string;
  sampling?: Sampling;
  overflow?: 'error' | 'shift';
  about?: About;
  pinned?: boolean;
  /** First all defaults are the daemon's again. */
  resetSampling?: boolean;
}
export interface TokenizeFields {
  special?: boolean;
  addBos?: boolean;
}
export interface PublishFields {
  atTurn?: number;
  off?: boolean;
}
export interface ExportFields {
  withoutMemory?: boolean;
}
export interface ImportFields {
  name?: string;
}
export interface CarryFields {
  expectRevision?: BigIntLike;
}
export interface AttachFields {
  position?: number;
  wantParts?: boolean;
  expectRevision?: BigIntLike;
  stop?: string[];
}
export interface WatchFields {
  cursor?: string;
  allUsers?: boolean;
}
/** One of `value`, `none` and `clear`. */
export interface QuotaChange {
  name: string;
  value?: BigIntLike;
  none?: boolean;
  clear?: boolean;
}
/** Without fields: the own limits. All else is for root, the user whom the daemon runs as, and its admin group. */
export interface QuotaFields {
  subject?: QuotaSubject;
  changes?: QuotaChange[];
  overrides?: boolean;
  cursor?: string;
  limit?: number;
}
export interface StatsFields {
  withUsers?: boolean;
  uid?: number;
  tenant?: string;
}
export interface FindFields {
  messages: Message[];
  tools?: Json;
  session?: string;
  /** How far this one agrees; else the one that agrees for longest. */
  conversation?: Ref;
}
export type UserOrder =
  | 'unspecified' | 'owner' | 'conversations' | 'tokens' | 'ram' | 'disk' | 'requests' | 'connections' | 'prefilled'
  | 'decoded' | 'used';
export type UserAct = 'unspecified' | 'cancel' | 'evict' | 'purge';
/** Values are in the notation of the configuration file. */
export interface Setting {
  name: string;
  value?: string;
  initial?: string;
  /** "FILE:LINE" or "command line". */
  origin?: string;
  reloadable?: boolean;
  /** What the files say now, where that is another value. */
  pending?: string;
  help?: string;
}
export interface SettingsResult {
  settings: Setting[];
  filesError?: string;
  startedUsec?: bigint;
}
export interface User {
  uid?: number;
  tenant?: string;
  conversations?: bigint;
  tokens?: bigint;
  ramBytes?: bigint;
  diskBytes?: bigint;
  requests?: bigint;
  connections?: bigint;
  requestsTotal?: bigint;
  tokensPrefilled?: bigint;
  tokensDecoded?: bigint;
  usedUsec?: bigint;
}
export interface UsersResult {
  users: User[];
  more?: boolean;
  cursor?: string;
}
export interface Stat {
  name?: string;
  value?: bigint;
}
export interface Histogram {
  name?: string;
  count?: bigint;
  sumUsec?: bigint;
  boundsUsec: bigint[];
  buckets: bigint[];
}
export interface Rates {
  seconds?: number;
  prefilled?: number;
  decoded?: number;
  requests?: number;
}
export interface StatsResult {
  stats: Stat[];
  allUsers?: boolean;
  version?: string;
  startedUsec?: bigint;
  uptimeUsec?: bigint;
  timeUsec?: bigint;
  sinceUsec?: bigint;
  histograms: Histogram[];
  rates: Rates[];
  own?: User;
  ownRates: Rates[];
  users: User[];
  moreUsers?: boolean;
}
export interface UserActed {
  conversations?: bigint;
  tokens?: bigint;
  requests?: bigint;
  busy?: bigint;
}
export interface Drained {
  requests?: bigint;
}
export interface Problem {
  /** 'spill' (a record on disk), 'register', 'conversation', 'turn', ... */
  kind?: string;
  conversation?: bigint;
  record?: bigint;
  text?: string;
  forgotten?: boolean;
}
export interface Checked {
  conversations?: bigint;
  turns?: bigint;
  tokens?: bigint;
  records?: bigint;
  /** Records that went before they were read: that is no problem. */
  gone?: bigint;
  skipped?: bigint;
  forgotten?: bigint;
  bytes?: bigint;
  /** Problems, also those that are not listed. */
  found?: bigint;
  problems: Problem[];
}
export interface CheckFields {
  /** Bytes that it reads in a minute; 0: no limit. */
  rate?: BigIntLike;
}
export interface DrainFields {
  /** Take work again. */
  off?: boolean;
  /** Cancel what still runs then; unset: wait for it. */
  timeoutUsec?: BigIntLike;
}
export interface UsersFields {
  order?: UserOrder;
  limit?: number;
  cursor?: string;
  uid?: number;
}
export interface ActOnUserFields {
  uid: number;
  /** This one; else the user and all tenants of the user. */
  tenant?: string;
  act: UserAct;
  /** Only count. */
  dryRun?: boolean;
}

/** Of every request. An abort rejects at once, and asks the daemon to end the request. */
export interface Options {
  signal?: AbortSignal;
}

declare class Stream<Item> implements AsyncIterableIterator<Item> {
  protected constructor();
  [Symbol.asyncIterator](): this;
  next(): Promise<IteratorResult<Item, undefined>>;
  /** What leaving a loop calls: the request is cancelled, and nothing more is told of it. */
  return(value?: any): Promise<IteratorResult<Item, any>>;
  /** Ask the daemon to end the request early. Go on reading to see how it ends. */
  cancel(): void;
}
/** To be read once: by a loop, by done(), or by text(). */
export class Reply extends Stream<ReplyEvent> {
  /** Read to the end; how it ended. */
  done(): Promise<{ type: 'done' } & Done>;
  /** Read to the end; the text, without reasoning and calls. */
  text(): Promise<string>;
}
export class Exporting extends Stream<Buffer> {
  /** There once all bytes were read. */
  exported: Exported | undefined;
}
export class Watching extends Stream<Notice> {}

export interface ConnectOptions {
  /** Of the socket. Unset: $CONFAB_SOCKET, else where the command `confab` looks. */
  path?: string;
  /** For whom the requests are; the daemon decides who may. */
  actFor?: { uid?: number; tenant?: string };
  /** The largest message that the daemon may send, in bytes. Unset: 16 MiB. */
  maxFrame?: number;
  /** So many bytes of events may wait for readers that lag, on this connection. Unset: 4 MiB. */
  maxQueued?: number;
  signal?: AbortSignal;
}
/** Connect to the daemon that listens on a Unix socket. */
export function connect(options?: ConnectOptions | string): Promise<Client>;

/** One connection. All of its requests may be in flight at once. */
export class Client {
  private constructor();
  /** Name and version of the daemon. */
  readonly server: string;
  /** For whom the daemon takes the requests. */
  readonly owner: { uid?: number; tenant?: string };
  /** Why the connection is over, or null. */
  readonly error: ConfabError | null;
  /** Hang up. The daemon cancels what is in flight and not detached. */
  disconnect(): Promise<void>;

  open(fields?: OpenFields, options?: Options): Promise<Conversation>;
  continue(conversation: Ref, fields: ContinueFields, options?: Options): Reply;
  fork(conversation: Ref, fields?: ForkFields, options?: Options): Promise<Conversation>;
  rewind(conversation: Ref, fields: RewindFields, options?: Options): Promise<Conversation>;
  /** Delete it for good. */
  close(conversation: Ref, options?: Options): Promise<void>;
  get(conversation: Ref, fields?: GetFields, options?: Options): Promise<Conversation>;
  list(fields?: ListFields, options?: Options): Promise<Conversations>;
  update(conversation: Ref, fields: UpdateFields, options?: Options): Promise<Conversation>;
  warm(conversation: Ref, options?: Options): Promise<Conversation>;
  evict(conversation: Ref, options?: Options): Promise<Conversation>;
  /** End what the conversation is doing. For a request of one's own: its signal, or Reply.cancel(). */
  cancel(conversation: Ref, options?: Options): Promise<void>;
  tokenize(text: string, fields?: TokenizeFields, options?: Options): Promise<TokenizeResult>;
  modelInfo(options?: Options): Promise<ModelInfoResult>;
  /** The figures by name. */
  stats(options?: Options): Promise<Record<string, bigint>>;
  /** All that Stats tells: histograms, rates, users. */
  figures(fields?: StatsFields, options?: Options): Promise<StatsResult>;
  quota(fields?: QuotaFields, options?: Options): Promise<Quotas>;
  publish(conversation: Ref, fields?: PublishFields, options?: Options): Promise<Conversation>;
  /** The bytes of the file. */
  export(conversation: Ref, fields?: ExportFields, options?: Options): Exporting;
  import(
    source: Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>, fields?: ImportFields, options?: Options,
  ): Promise<Conversation>;
  carry(conversation: Ref, fields?: CarryFields, options?: Options): Promise<Conversation>;
  attach(conversation: Ref, fields?: AttachFields, options?: Options): Reply;
  watch(fields?: WatchFields, options?: Options): Watching;
  find(fields: FindFields, options?: Options): Promise<Found>;

  // For root, the user whom the daemon runs as, and its admin group.
  settings(options?: Options): Promise<SettingsResult>;
  users(fields?: UsersFields, options?: Options): Promise<UsersResult>;
  actOnUser(fields: ActOnUserFields, options?: Options): Promise<UserActed>;
  drain(fields?: DrainFields, options?: Options): Promise<Drained>;
  /** The bytes of a tar archive with all conversations of all users. */
  backup(options?: Options & { withMemory?: boolean }): Exporting;
  /** Reads all that is on disk, while everybody goes on. */
  check(fields?: CheckFields, options?: Options & { progress?: (progress: Progress) => void }): Promise<Checked>;
}
