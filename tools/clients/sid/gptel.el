;;; gptel.el --- chats with gptel, told by lines of JSON -*- lexical-binding: t -*-
;; SPDX-License-Identifier: MIT
;;; Commentary:
;; emacs --batch -l gptel.el HOST TOKEN KIND SYSTEM N_MAX: KIND is openai or ollama. Each line of standard input is an
;; object: {"say": TEXT}, {"edit": TURN, "say": TEXT} or {"title": TEXT}; it is answered by a line {"text": REPLY}.
;;; Code:
(require 'gptel)
(require 'gptel-ollama)
(require 'gptel-openai)
(require 'json)

(defvar host (pop command-line-args-left))
(defvar token (pop command-line-args-left))
(defvar kind (pop command-line-args-left))
(defvar system (pop command-line-args-left))
(defvar n-max (string-to-number (pop command-line-args-left)))
(defvar turns nil "Where the user's messages begin in the buffer of the chat, the last one first.")
(defvar ended nil "What the hook of the end of a reply was told.")

(setq gptel-backend
      (if (string= kind "ollama")
          (gptel-make-ollama "confab" :host host :protocol "http" :stream t :models '(m)
                             :header (lambda () `(("Authorization" . ,(concat "Bearer " token)))))
        (gptel-make-openai "confab" :host host :protocol "http" :stream t :key token :models '(m)))
      gptel-model 'm
      gptel-system-prompt system
      gptel-temperature 0.1
      gptel-max-tokens n-max)
(add-hook 'gptel-post-response-functions (lambda (begin end) (setq ended (cons begin end))))

(defun wait-for (done)
  "Let processes go on until the function DONE says so."
  (while (not (funcall done))
    (accept-process-output nil 1)))

(defun say (text)
  "Send TEXT, as the end of the current buffer. The reply as it is in the buffer then."
  (goto-char (point-max))
  (push (point) turns)
  (insert text)
  (setq ended nil)
  (gptel-send)
  (wait-for (lambda () ended))
  (prog1 (buffer-substring-no-properties (car ended) (cdr ended))
    (goto-char (point-max))
    (insert gptel-response-separator)))

(defun edit (turn)
  "Take back what was said from the user's message TURN on."
  (while (> (length turns) turn)
    (delete-region (pop turns) (point-max))))

(defun title (text)
  "A request besides the chat."
  (let (reply)
    (gptel-request text :system "You write titles."
      :callback (lambda (answer info) (setq reply (or answer (plist-get info :status)))))
    (wait-for (lambda () reply))
    (format "%s" reply)))

(with-current-buffer (get-buffer-create "chat")
  (text-mode)
  (gptel-mode 1)
  (let (line)
    (while (setq line (ignore-errors (read-from-minibuffer "")))
      (let ((asked (json-parse-string line :object-type 'alist)))
        (when (assq 'edit asked)
          (edit (alist-get 'edit asked)))
        (princ (json-serialize
                `((text . ,(if (assq 'title asked)
                               (title (alist-get 'title asked))
                             (say (alist-get 'say asked)))))))
        (terpri)))))
;;; gptel.el ends here
