// franz-go behind the line protocol of peers/clients/lines.py: program <bootstrap>
//
// PEER_CA names a file with the authority of brokers that speak TLS. PEER_SASL is a login: mechanism,user,password, or
// oauthbearer,token.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const deadline = 30 * time.Second

type record struct {
	Offset    int64        `json:"offset"`
	Timestamp *int64       `json:"timestamp"`
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
}

type request struct {
	Op          string            `json:"op"`
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Partitions  int32             `json:"partitions"`
	Config      map[string]string `json:"config"`
	Records     []record          `json:"records"`
	Codec       string            `json:"codec"`
	Acks        string            `json:"acks"`
	Idempotent  bool              `json:"idempotent"`
	Transaction string            `json:"transaction"`
	MaxRequest  int32             `json:"max_request"`
	Start       int64             `json:"start"`
	End         int64             `json:"end"`
	Isolation   string            `json:"isolation"`
	At          string            `json:"at"`
	Before      int64             `json:"before"`
	Ends        []int64           `json:"ends"`
}

type reply map[string]any

func raw(text *string) []byte {
	if text == nil {
		return nil
	}
	bytes, err := hex.DecodeString(*text)
	if err != nil {
		panic(err)
	}
	return bytes
}

func text(bytes []byte) *string {
	if bytes == nil {
		return nil
	}
	said := hex.EncodeToString(bytes)
	return &said
}

var bootstrap string

func connect(options ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID("franz-go-peer"), kgo.RetryTimeout(deadline)}
	if file := os.Getenv("PEER_CA"); file != "" {
		authority, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(authority)
		base = append(base, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	if words := strings.Split(os.Getenv("PEER_SASL"), ","); len(words) > 1 {
		base = append(base, kgo.SASL(login(words)))
	}
	return kgo.NewClient(append(base, options...)...)
}

func login(words []string) sasl.Mechanism {
	switch words[0] {
	case "scram-sha-256":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha512Mechanism()
	case "oauthbearer":
		return oauth.Auth{Token: words[1]}.AsMechanism()
	}
	return plain.Auth{User: words[1], Pass: words[2]}.AsMechanism()
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func produceOptions(ask request) []kgo.Opt {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec(ask.Codec)),
		kgo.ProducerBatchMaxBytes(ask.MaxRequest),
		kgo.BrokerMaxWriteBytes(max(100<<20, ask.MaxRequest)),
		kgo.ProducerLinger(100 * time.Millisecond),
	}
	switch ask.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if ask.Transaction != "" {
		options = append(options, kgo.TransactionalID("franz-"+ask.Topic+"-"+ask.Transaction))
	} else if !ask.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options
}

func produce(ctx context.Context, ask request) (reply, error) {
	client, err := connect(produceOptions(ask)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if ask.Transaction != "" {
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
	}
	sent := make([]*kgo.Record, 0, len(ask.Records))
	for _, each := range ask.Records {
		one := &kgo.Record{Topic: ask.Topic, Partition: ask.Partition, Key: raw(each.Key), Value: raw(each.Value)}
		if each.Timestamp != nil {
			one.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		for _, header := range each.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: *header[0], Value: raw(header[1])})
		}
		sent = append(sent, one)
	}
	offsets := make([]int64, 0, len(sent))
	for _, result := range client.ProduceSync(ctx, sent...) {
		if result.Err != nil {
			return nil, result.Err
		}
		offset := result.Record.Offset
		if ask.Acks == "0" {
			offset = -1
		}
		offsets = append(offsets, offset)
	}
	if ask.Transaction != "" {
		if err := client.EndTransaction(ctx, ask.Transaction == "commit"); err != nil {
			return nil, err
		}
	}
	return reply{"offsets": offsets}, nil
}

func consume(ctx context.Context, ask request) (reply, error) {
	isolation := kgo.ReadUncommitted()
	if ask.Isolation == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	where := map[string]map[int32]kgo.Offset{ask.Topic: {ask.Partition: kgo.NewOffset().At(ask.Start)}}
	client, err := connect(kgo.ConsumePartitions(where), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []record{}
	for next := ask.Start; next < ask.End; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		for _, failed := range fetches.Errors() {
			return nil, failed.Err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			next = one.Offset + 1
			if one.Attrs.IsControl() || one.Offset >= ask.End {
				return
			}
			headers := [][2]*string{}
			for _, header := range one.Headers {
				name := header.Key
				headers = append(headers, [2]*string{&name, text(header.Value)})
			}
			at := one.Timestamp.UnixMilli()
			records = append(records, record{one.Offset, &at, text(one.Key), text(one.Value), headers})
		})
	}
	return reply{"records": records}, nil
}

func consumeAll(ctx context.Context, ask request) (reply, error) {
	partitions := map[int32]kgo.Offset{}
	offsets := make([][]int64, len(ask.Ends))
	missing := int64(0)
	for partition, end := range ask.Ends {
		partitions[int32(partition)] = kgo.NewOffset().At(0)
		offsets[partition] = []int64{}
		missing += end
	}
	client, err := connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{ask.Topic: partitions}),
		kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for missing > 0 && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return nil, failed.Err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			offsets[one.Partition] = append(offsets[one.Partition], one.Offset)
			missing--
		})
	}
	return reply{"offsets": offsets}, nil
}

func listOffset(ctx context.Context, admin *kadm.Client, ask request) (reply, error) {
	var listed kadm.ListedOffsets
	var err error
	switch ask.At {
	case "earliest":
		listed, err = admin.ListStartOffsets(ctx, ask.Topic)
	case "latest":
		listed, err = admin.ListEndOffsets(ctx, ask.Topic)
	case "max_timestamp":
		listed, err = admin.ListMaxTimestampOffsets(ctx, ask.Topic)
	default:
		at, bad := strconv.ParseInt(ask.At, 10, 64)
		if bad != nil {
			return nil, bad
		}
		listed, err = admin.ListOffsetsAfterMilli(ctx, at, ask.Topic)
	}
	if err != nil {
		return nil, err
	}
	found, _ := listed.Lookup(ask.Topic, ask.Partition)
	return reply{"offset": found.Offset, "timestamp": found.Timestamp}, found.Err
}

func answer(admin *kadm.Client, ask request) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	switch ask.Op {
	case "create_topic":
		config := map[string]*string{}
		for name, value := range ask.Config {
			config[name] = kadm.StringPtr(value)
		}
		_, err := admin.CreateTopic(ctx, ask.Partitions, -1, config, ask.Topic)
		return reply{}, err
	case "delete_topic":
		_, err := admin.DeleteTopic(ctx, ask.Topic)
		return reply{}, err
	case "produce":
		return produce(ctx, ask)
	case "consume":
		return consume(ctx, ask)
	case "consume_all":
		return consumeAll(ctx, ask)
	case "list_offset":
		return listOffset(ctx, admin, ask)
	case "describe_config":
		described, err := admin.DescribeTopicConfigs(ctx, ask.Topic)
		if err != nil {
			return nil, err
		}
		found, err := described.On(ask.Topic, nil)
		config := map[string]*string{}
		for _, each := range found.Configs {
			config[each.Key] = each.Value
		}
		return reply{"config": config}, errors.Join(err, found.Err)
	case "alter_config":
		alterations := []kadm.AlterConfig{}
		for name, value := range ask.Config {
			alterations = append(alterations, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)})
		}
		altered, err := admin.AlterTopicConfigs(ctx, alterations, ask.Topic)
		if err != nil {
			return nil, err
		}
		found, err := altered.On(ask.Topic, nil)
		return reply{}, errors.Join(err, found.Err)
	case "create_partitions":
		grown, err := admin.UpdatePartitions(ctx, int(ask.Partitions), ask.Topic)
		if err != nil {
			return nil, err
		}
		found, err := grown.On(ask.Topic, nil)
		return reply{}, errors.Join(err, found.Err)
	case "partition_count":
		topics, err := admin.ListTopics(ctx, ask.Topic)
		return reply{"partitions": len(topics[ask.Topic].Partitions)}, err
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(ask.Topic, ask.Partition, ask.Before, -1)
		deleted, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		found, _ := deleted.Lookup(ask.Topic, ask.Partition)
		return reply{"low": found.LowWatermark}, found.Err
	}
	return nil, fmt.Errorf("unknown op %q", ask.Op)
}

func main() {
	bootstrap = os.Args[1]
	client, err := connect()
	if err != nil {
		panic(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var ask request
		said, err := reply(nil), json.Unmarshal(line, &ask)
		if err == nil {
			said, err = answer(admin, ask)
		}
		if err != nil {
			code := int16(-1)
			var known *kerr.Error
			if errors.As(err, &known) {
				code = known.Code
			}
			said = reply{"error": code, "message": err.Error()}
		}
		if err := out.Encode(said); err != nil {
			return
		}
	}
}
