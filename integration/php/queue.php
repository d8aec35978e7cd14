<?php
// A PHP program on Swoolefy's queue keys, for tests: it does with them what the PHP
// job layer does, by the facts that are known about it.
//
//   php queue.php HOST PORT QUEUE VERB [ARGUMENT]
//
// Items are JSON on stdin, one a line; results are JSON on stdout, one a line.
declare(strict_types=1);

// The job layer's error handler throws on warnings, and so loses what it works on.
set_error_handler(static function (int $level, string $message): never {
    throw new ErrorException($message, 0, $level);
});

const FIELDS = ['v', 'jobId', 'jobType', 'payload', 'meta', 'attempt', 'maxAttempts', 'createdAt'];

/** The queue of plain arrays. */
final class Queue
{
    public function __construct(private Redis $redis, private string $name, private int $retryTimes = 3)
    {
    }

    public function push(array $item, string $list = ''): void
    {
        $item += ['__id' => md5(random_bytes(16)), '__retry_num' => 0, '__timestamp' => time()];
        // With bytes that are no UTF-8 this is false, which goes out as "".
        $this->redis->lPush($this->name . $list, (string) json_encode($item));
    }

    public function pushPriority(array $item): void
    {
        $this->push($item, ':priority_queue');
    }

    /** One round of a consumer: priority first, then the plain list, then what is due. */
    public function pop(int $timeout): array
    {
        foreach ([':priority_queue' => 1, '' => $timeout] as $list => $seconds) {
            $got = $this->redis->brPop([$this->name . $list], $seconds);
            if ($got) {
                return [$got[0], json_decode($got[1], true) ?? $got[1]];
            }
        }
        $script = <<<'LUA'
            local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)
            for _, item in ipairs(due) do
                redis.call('LPUSH', KEYS[2], item)
                redis.call('ZREM', KEYS[1], item)
            end
            return #due
            LUA;
        $this->redis->eval($script, [$this->name . ':retry_queue_sort', $this->name, (string) time()], 2);
        return [];
    }

    /** False: given up, as often as it was tried. */
    public function retry(array $item, int $delay): bool
    {
        $item['__id'] ??= md5(random_bytes(16));
        if ($item['__retry_num'] >= $this->retryTimes) { // an item without it ends here
            return false;
        }
        $item['__retry_num']++;
        $this->redis->zAdd($this->name . ':retry_queue_sort', time() + $delay, json_encode($item));
        return true;
    }
}

/** One job, read as the job layer reads it. */
function envelope(mixed $raw): array
{
    if (!is_array($raw) || !is_string($raw['jobType'] ?? null) || $raw['jobType'] === '') {
        throw new DomainException('no non-empty jobType');
    }
    if (!is_array($raw['payload'] ?? [])) {
        throw new DomainException('payload is no array');
    }
    $id = $raw['jobId'] ?? null;
    return [
        'v' => (int) ($raw['v'] ?? 1),
        'jobId' => is_string($id) && $id !== '' ? $id : 'job_' . date('YmdHis') . '_' . bin2hex(random_bytes(6)),
        'jobType' => $raw['jobType'],
        'payload' => $raw['payload'] ?? [],
        'meta' => is_array($raw['meta'] ?? null) ? $raw['meta'] : [],
        'attempt' => max(1, (int) ($raw['attempt'] ?? 1)),
        'maxAttempts' => max(1, (int) ($raw['maxAttempts'] ?? 5)),
        'createdAt' => (int) ($raw['createdAt'] ?? time()),
    ];
}

function out(mixed $value): void
{
    echo json_encode($value, JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR), "\n";
}

function items(): iterable
{
    while (($line = fgets(STDIN)) !== false) {
        yield json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    }
}

[, $host, $port, $name, $verb] = $argv;
$argument = (int) ($argv[5] ?? 0);
$redis = new Redis();
$redis->connect($host, (int) $port);
$queue = new Queue($redis, $name);
$dead = 'job:dead:' . $name;

switch ($verb) {
    case 'push':
        foreach (items() as $item) {
            $queue->push($item);
        }
        break;
    case 'push-priority':
        foreach (items() as $item) {
            $queue->pushPriority($item);
        }
        break;
    case 'push-broken': // what comes of text that is no UTF-8
        $queue->push(envelope(['jobType' => 'x', 'payload' => ['text' => "\xff"]]));
        break;
    case 'retry': // from now on: due in $argument seconds
        foreach (items() as $item) {
            $queue->retry($item + ['__retry_num' => 0], $argument);
        }
        break;
    case 'consume': // until $argument items were read
        for ($empty = 0; $argument > 0 && $empty < 8;) {
            $got = $queue->pop(1);
            if ($got === []) {
                $empty++;
                continue;
            }
            $empty = 0;
            $argument--;
            // Its own retry must be possible with what it got.
            $retry = is_array($got[1]) && $got[1]['__retry_num'] >= 0 && $got[1]['__id'] !== '';
            out(['list' => $got[0], 'item' => $got[1], 'job' => envelope($got[1]), 'retry' => $retry]);
        }
        break;
    case 'bury':
        foreach (items() as $item) {
            $record = ['job' => envelope($item), 'error' => 'PHP gave up: größer', 'at' => time()];
            $redis->lPush($dead, json_encode($record, JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR));
        }
        break;
    case 'exhume': // every dead letter, oldest first, as PHP's replay reads it; it stops at what it can't
        while (($raw = $redis->rPop($dead)) !== false) {
            $record = json_decode($raw, true);
            if (!is_array($record) || !is_array($record['job'] ?? null)) {
                exit(3);
            }
            out(['job' => ['attempt' => 1] + envelope($record['job']), 'error' => $record['error'], 'at' => $record['at']]);
        }
        break;
    default:
        fwrite(STDERR, "unknown verb $verb\n");
        exit(2);
}
