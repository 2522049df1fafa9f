;; Wants four game servers beyond those that are in use.
(data (i32.const 0) "{\"response\":{\"scale\":true,\"replicas\":  }}")
(data (i32.const 100) "\"allocatedReplicas\":")

;; Finds where the number of those in use begins in the question.
(func $find (result i64) (local $at i64) (local $matched i32)
    (loop $next
        (local.set $matched
            (if (result i32)
                (i32.eq (call $input (local.get $at))
                    (i32.load8_u (i32.add (i32.const 100) (local.get $matched))))
                (then (i32.add (local.get $matched) (i32.const 1)))
                (else (i32.const 0))))
        (local.set $at (i64.add (local.get $at) (i64.const 1)))
        (br_if $next (i32.lt_u (local.get $matched) (i32.const 20))))
    (local.get $at))

;; Reads a number to its last digit.
(func $number (param $at i64) (result i32) (local $digit i32) (local $number i32)
    (block $done (loop $next
        (local.set $digit (i32.sub (call $input (local.get $at)) (i32.const 48)))
        (br_if $done (i32.gt_u (local.get $digit) (i32.const 9)))
        (local.set $number
            (i32.add (i32.mul (local.get $number) (i32.const 10)) (local.get $digit)))
        (local.set $at (i64.add (local.get $at) (i64.const 1)))
        (br $next)))
    (local.get $number))

;; Writes the size over the two spaces of the answer, and over the size before: the module lives on between questions.
(func (export "scale") (result i32) (local $size i32)
    (local.set $size (i32.add (call $number (call $find)) (i32.const 4)))
    (i32.store8 (i32.const 37)
        (select
            (i32.add (i32.const 48) (i32.div_u (local.get $size) (i32.const 10)))
            (i32.const 32)
            (i32.gt_u (local.get $size) (i32.const 9))))
    (i32.store8 (i32.const 38)
        (i32.add (i32.const 48) (i32.rem_u (local.get $size) (i32.const 10))))
    (call $output (call $hand (i32.const 0) (i32.const 41)) (i64.const 41))
    (i32.const 0))
